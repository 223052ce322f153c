"""Which uncertainty separates wrong from right answers? Prefix sums of many lengths; the longest get too few steps.

    python benchmarks/trust.py [--run FOLDER] [--steps 100] [--examples 60] [--json FILE]

All uncertainties rank the same answers. `all lengths` mixes easy and hopeless strings. `border` keeps only the lengths
at which some answers are right and some are wrong, so that the length alone does not predict the errors. The last
lines calibrate a threshold for the error among accepted answers on one half of the answers and test it on the other
half. Runs in one thread.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from harness import arguments, write
from torch import Tensor

import equilibria
from equilibria import Budget, EquilibriumModel, Output
from equilibria.diagnostics import UNCERTAINTIES, aurc, auroc, threshold_for_accepted_error
from equilibria.tasks import PrefixSum

RUN = Path(__file__).parents[1] / "results" / "prefix_sum" / "fast" / "seed-1"
LENGTHS = (64, 96, 128, 192, 224, 232, 236, 240, 244, 248, 256, 320, 384, 512)
RATE = 0.05


@dataclass(frozen=True)
class Line:
    what: str
    value: float
    low: float = math.nan
    high: float = math.nan


def answers(model: EquilibriumModel, length: int, *, examples: int, budget: Budget) -> dict[str, Tensor]:
    """`wrong` and every uncertainty, (examples,) each."""
    batch = PrefixSum().sample(examples, length, torch.Generator().manual_seed(length))
    solution = model.equilibrium(batch.x, budget=budget, trace=False)
    with torch.no_grad():
        output = Output(model.readout(solution.z), solution)
    uncertainties = {
        name: uncertainty()(model, batch.x, output, budget=budget) for name, uncertainty in UNCERTAINTIES.items()
    }
    return {"wrong": 1 - PrefixSum().score(output.prediction, batch), **uncertainties}


def lines(parts: dict[int, dict[str, Tensor]]):
    for length, part in parts.items():
        yield Line(f"{length} bits: wrong", part["wrong"].mean().item())
    border = {length: part for length, part in parts.items() if 0 < part["wrong"].mean() < 1}
    for mix, some in (("all lengths", parts), ("border", border)):
        if not some:
            continue
        joined = {name: torch.cat([part[name] for part in some.values()]) for name in ("wrong", *UNCERTAINTIES)}
        yield Line(f"{mix}: answers", len(joined["wrong"]))
        yield Line(f"{mix}: wrong", joined["wrong"].mean().item())
        for name in UNCERTAINTIES:
            found = auroc(joined[name], joined["wrong"], rng=torch.Generator().manual_seed(0))
            yield Line(f"{mix}: AUROC of {name}", found.value, found.low, found.high)
            yield Line(f"{mix}: AURC of {name}", aurc(joined[name], joined["wrong"]))
        calibration = torch.randperm(len(joined["wrong"]), generator=torch.Generator().manual_seed(1)) % 2 == 0
        for name in UNCERTAINTIES:
            known, new = joined[name][calibration], joined[name][~calibration]
            limit = threshold_for_accepted_error(known, joined["wrong"][calibration], rate=RATE).uncertainty
            accepted = new <= limit
            yield Line(f"{mix}: accepted by {name}", accepted.double().mean().item())
            yield Line(f"{mix}: wrong among these", joined["wrong"][~calibration][accepted].mean().item())


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--run", default=RUN, type=Path, help="the folder of a trained net")
    parser.add_argument("--steps", default=100, type=int, help="cell evaluations for every answer")
    parser.add_argument("--examples", default=60, type=int, help="strings of each length")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, budget = equilibria.load(options.run), Budget(options.steps)
    parts = {length: answers(model, length, examples=options.examples, budget=budget) for length in LENGTHS}
    found = []
    for line in lines(parts):
        found.append(asdict(line))
        interval = "" if math.isnan(line.low) else f"   [{line.low:.3f}, {line.high:.3f}]"
        print(f"{line.what:<45} {line.value:9.3f}{interval}", flush=True)
    found = [{key: value for key, value in line.items() if value == value} for line in found]  # JSON has no NaN
    write(options.json, steps=options.steps, examples=options.examples, lines=found)


if __name__ == "__main__":
    main()
