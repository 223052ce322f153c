"""The flags of `equilibria reproduce`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from equilibria.cli.executors import ExecutorFlags
from equilibria.cli.options import Flag
from equilibria.training import Machine


@dataclass(frozen=True)
class Reproduce:
    """Reproduce figures and tables of the paper: train what is missing, measure, draw, and judge its claims.

    `equilibria reproduce correlation stress_test` brings two studies up to date in results/laptop, and
    results/laptop/report.html with them. What is there already is not done again, so the same command goes on after
    an interruption.
    """

    studies: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names of studies; `--list` shows them."""
    all: Flag = False
    """Every study."""
    scale: str = "laptop"
    """smoke (seconds, for tests), laptop, or paper (the paper's own settings)."""
    out: Path = Path("results")
    """Folder in which every scale has a folder of its own."""
    where: Annotated[ExecutorFlags, tyro.conf.arg(name="")] = ExecutorFlags()
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine()
    check: Flag = False
    """Train and write nothing: measure again from the weights that are there and compare with the recorded rows, and
    the claims with what follows from the rows. Exit code 1 if something differs."""
    sample: int = 0
    """With --check: so many measurements, the cheapest of every study first; 0: all."""
    retry: Flag = False
    """Also train what failed before."""
    list: Flag = False
    """Show the studies and how they stand, and do nothing."""
    json: Flag = False
    """Print what became of it, as JSON, on standard output."""

    def run(self) -> int:
        from equilibria.cli.reproduce_output import carry_out  # the studies need scipy.stats, which is slow to import

        return carry_out(self)
