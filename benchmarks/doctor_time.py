"""How long does a diagnosis take? The small models that the adapters are tested on, with about 5 million parameters.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/doctor_time.py --json benchmarks/doctor_time.json

Every model gets 64 inputs and the defaults of `diagnose`: at most about 60 seconds by the clock, on one thread. On a
busy machine (see `load`, the number of processes that wanted to run) there are fewer CPU seconds in them, and more is
cut: `cut` lists what there was no time for.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from harness import arguments, write
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the small models

import foreign_models as models
import foreign_recursive as recursive
from torchdeq import get_deq

from equilibria.diagnostics import (
    diagnose,
    from_deep_thinking,
    from_energy,
    from_eqr,
    from_function,
    from_hrm,
    from_huginn,
    from_recurrent,
    from_torchdeq,
    from_transformers,
    from_trm,
)

INPUTS = 64


@dataclass(frozen=True)
class Duration:
    """The time of one diagnosis."""

    model: str
    parameters: int
    examples: int
    steps: int
    seconds: float
    cpu_seconds: float
    cut: list[str]  # notes about time


def random_inputs(*shape: int) -> Tensor:
    return torch.randn(INPUTS, *shape, generator=torch.Generator().manual_seed(0))


def puzzles(kind: str, width: int, adapt: Callable[[Any], Any]) -> tuple[Any, ...]:
    recursive.WIDTH = width
    net = recursive.made(kind, puzzle_emb_ndim=width, batch_size=INPUTS)
    batch = recursive.puzzles(INPUTS)
    return net, adapt(net), batch, batch["labels"]


def on_tokens(width: int, build: Callable[[], nn.Module], adapt: Callable[[Any], Any]) -> tuple[Any, ...]:
    models.WIDTH = width
    net, x = models.seeded(build), models.tokens(INPUTS)
    return net, adapt(net), x, x.flip(1)


def universal(net: Any) -> Any:
    def step(z: Tensor, x: Tensor, *, t: Tensor) -> Tensor:
        return net.block(z + net.clock(t)[:, None])

    return from_function(step, init=net.embed, readout=net.head, module=net, timed=True)


def deep_thinking() -> tuple[Any, ...]:
    models.WIDTH = 1290
    net, x = models.seeded(models.DeepThinking), random_inputs(1, 16)
    return net, from_deep_thinking(net), x, (x[:, 0] > 0).long()


def recurrent(kind: type[nn.GRU] | type[nn.LSTM], width: int) -> tuple[Any, ...]:
    net, x = models.seeded(lambda: kind(16, width)), random_inputs(16)
    head = models.seeded(lambda: nn.Linear(width, 4))
    return net, from_recurrent(net, readout=head), x, x[:, :4].argmax(1)


class Deq(nn.Module):
    """A model written for torchdeq."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.mix, self.head = nn.Linear(16, 2230), nn.Linear(2230, 2230), nn.Linear(2230, 4)
        self.deq = get_deq(f_solver="fixed_point_iter", f_max_iter=30)

    def forward(self, x: Tensor) -> Tensor:
        u = self.encode(x)
        out, _ = self.deq(lambda z: torch.tanh(self.mix(z) + u), torch.zeros_like(u))
        return self.head(out[-1])


def torchdeq_model() -> tuple[Any, ...]:
    net, x = models.seeded(Deq), random_inputs(16)
    return net, from_torchdeq(net, readout=net.head), x, x[:, :4].argmax(1)


def energy() -> tuple[Any, ...]:
    width = 512
    net = models.seeded(lambda: nn.Sequential(nn.Linear(2 * width, 1700), nn.Tanh(), nn.Linear(1700, 1900), nn.Tanh()))
    x = random_inputs(width)

    def of(z: Tensor, x: Tensor) -> Tensor:
        return 0.5 * z.square().sum(1) + net(torch.cat((z, x), 1)).square().sum(1)

    return net, from_energy(of, init=torch.zeros_like, step_size=0.1, module=net), x, None


CASES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "TRM": lambda: puzzles("trm", 2200, from_trm),
    "HRM": lambda: puzzles("hrm", 1560, from_hrm),
    "EqR": lambda: puzzles("eqr", 2200, from_eqr),
    "Huginn": lambda: on_tokens(910, models.Huginn, from_huginn),
    "deep thinking": deep_thinking,
    "ALBERT": lambda: on_tokens(1120, models.AlbertForMaskedLM, from_transformers),
    "universal transformer": lambda: on_tokens(1112, models.UniversalTransformer, universal),
    "GRU": lambda: recurrent(nn.GRU, 1280),
    "LSTM": lambda: recurrent(nn.LSTM, 1100),
    "torchdeq": torchdeq_model,
    "energy descent": energy,
}


def measure(name: str) -> Duration:
    """Diagnose one model with the defaults."""
    net, model, inputs, targets = CASES[name]()
    begin = time.process_time()
    found = diagnose(model, inputs, targets, name=name)
    return Duration(
        model=name,
        parameters=sum(parameter.numel() for parameter in net.parameters()),
        examples=found.examples,
        steps=found.steps,
        seconds=found.seconds,
        cpu_seconds=round(time.process_time() - begin, 1),
        cut=[note for note in found.notes if "in time" in note or "time was short" in note],
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="only models whose names contain this")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for name in CASES:
        if chosen.only in name:
            row = measure(name)
            found.append(row)
            print(
                f"{row.model:<24} {row.parameters / 1e6:.1f}M  {row.examples} x {row.steps}  {row.seconds:.0f} s "
                f"({row.cpu_seconds:.0f} s CPU)  {' '.join(row.cut)}",
                flush=True,
            )
    load = round(os.getloadavg()[1], 1)
    write(
        chosen.json,
        load=load,
        cores=os.cpu_count(),
        longest=max(row.seconds for row in found),
        models=[asdict(row) for row in found],
    )


if __name__ == "__main__":
    main()
