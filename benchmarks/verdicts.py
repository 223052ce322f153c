"""Does the doctor know whether more steps help? Twelve nets whose answers at ten times the trained steps are known.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/verdicts.py --json benchmarks/verdicts.json --table docs/diagnosis.md

The truth is measured without the doctor, on fresh inputs: the share of right answers after the trained steps and after
ten times as many, by plain iteration. A difference of at least two points is help or hurt, a smaller one is enough.
"""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from harness import arguments, write
from torch import Tensor
from verdict_nets import PATIENTS, Patient

from equilibria.diagnostics import diagnose

FRESH, ASKED = 2000, 128  # examples of the truth, and of the diagnosis
FRESH_SEED, ASKED_SEED = 10**6, 2 * 10**6
LEAST = 0.02  # the least change of the share of right answers that is not "enough"
TIMES = 10
SAYS = {"will help": "help", "may help": "help", "will not help": "enough", "may hurt": "hurt", "hurt": "hurt"}
BEGIN, END = "<!-- verdicts -->", "<!-- end of verdicts -->"


@dataclass(frozen=True)
class Verdict:
    """What the doctor said about a net, and what is true."""

    net: str
    trained_steps: int
    score: float  # after the trained steps
    later: float  # after ten times as many
    truth: str
    verdict: str
    right: bool
    enough_steps: int | None
    cpu_seconds: float  # of the diagnosis


def scores(patient: Patient, steps: list[int]) -> list[float]:
    """The share of right answers after some numbers of steps, by plain iteration."""
    x, y = patient.sample(FRESH, FRESH_SEED)
    model, found = patient.model.eval(), []
    with torch.no_grad():
        z = model.init(x)
        for step in range(1, max(steps) + 1):
            z = model.cell(z, x)
            if step in steps:
                found.append(_right(model.readout(z), y))
    return found


def _right(prediction: Tensor, y: Tensor) -> float:
    answer = prediction > 0 if y.dtype == torch.bool else prediction.argmax(1)
    return (answer == y).reshape(len(y), -1).all(1).double().mean().item()


def examine(name: str) -> Verdict:
    """Train a net, measure the truth, and ask the doctor."""
    patient = PATIENTS[name]()
    before, after = scores(patient, [patient.trained_steps, TIMES * patient.trained_steps])
    truth = "enough" if abs(after - before) < LEAST else "help" if after > before else "hurt"
    begin = time.process_time()
    inputs, targets = patient.sample(ASKED, ASKED_SEED)
    how = {"restarts": 2, "attacks": False, "seconds": math.inf}  # the number of steps is that of the default
    found = diagnose(patient.model, inputs, targets, trained_steps=patient.trained_steps, **how)
    said = SAYS[found.verdict.more_steps]
    print(
        f"{name:<42} {before:.3f} {after:.3f} {truth:<7} {found.findings[2].answer}: {found.findings[2].why}",
        flush=True,
    )
    return Verdict(
        net=name,
        trained_steps=patient.trained_steps,
        score=round(before, 4),
        later=round(after, 4),
        truth=truth,
        verdict=found.verdict.more_steps,
        right=said == truth,
        enough_steps=found.verdict.enough_steps,
        cpu_seconds=round(time.process_time() - begin, 1),
    )


def table(found: list[Verdict]) -> str:
    """The verdicts as a Markdown table."""
    lines = ["| net | steps | right | right at 10x | truth | verdict |", "| --- | --- | --- | --- | --- | --- |"]
    for row in found:
        mark = "" if row.right else " (wrong)"
        scores = f"{row.score:.1%} | {row.later:.1%}"
        lines.append(f"| {row.net} | {row.trained_steps} | {scores} | {row.truth} | {row.verdict}{mark} |")
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="only nets whose names contain this")
    parser.add_argument("--table", metavar="FILE", help="write the table between the markers of this file")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for name in PATIENTS:
        if chosen.only in name:
            found.append(examine(name))
    print(f"right: {sum(row.right for row in found)} of {len(found)}")
    write(chosen.json, right=sum(row.right for row in found), of=len(found), nets=[asdict(row) for row in found])
    if chosen.table:
        path = Path(chosen.table)
        before, rest = path.read_text().split(BEGIN)
        path.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
