"""`equilibria evaluate`."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from equilibria.cli.options import Flag, MeasuringFlags, as_points, use_threads
from equilibria.cli.progress_bar import measurement_table
from equilibria.io.files import jsonable
from equilibria.training import Run
from equilibria.training.measurement import measure_final
from equilibria.training.runs import compare_measurements


@dataclass(frozen=True)
class Evaluate(MeasuringFlags):
    """Measure trained nets: score, alignment, residual and steps by difficulty.

    Evaluations of a net always use the same instances, so `--check` can compare the results with the numbers in the
    run's summary. The exit code is 1 if they differ.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of finished runs, for example results/prefix_sum/fast/seed-0."""
    at: tuple[tuple[float, int], ...] = ()
    """Pairs of a difficulty and a number of steps. Defaults to those of the recipe."""
    examples: int = 0
    """Instances of each difficulty. 0 uses the number in the recipe."""
    check: Flag = False
    """Compare with the recorded numbers. Cannot be combined with --at or --examples."""

    def run(self) -> int:
        if self.check and (self.at or self.examples):
            raise ValueError("--check repeats the recorded measurements; remove --at and --examples")
        if not self.runs:
            raise ValueError("pass at least one run folder; `equilibria list runs` shows them")
        use_threads(self.threads)
        console, results, failed = Console(stderr=self.json), [], False
        for folder in self.runs:
            run = Run(folder)
            recipe, at = run.recipe, as_points(self.at)
            measured = measure_final(run.model(), recipe, examples=self.examples or None, at=at)
            shares = recipe.task.higher_is_better
            wrong = compare_measurements(run.summary["measurements"], measured, shares=shares) if self.check else []
            if self.check and not measured:
                wrong = [f"{folder} has no recorded numbers"]
            failed |= bool(wrong)
            results.append({"folder": str(folder), "measurements": jsonable(measured), "wrong": wrong})
            if not self.json:
                console.print(measurement_table(measured, str(folder)))
            for sentence in wrong:
                console.print(f"[red]{sentence}[/red]", soft_wrap=True)
        if self.check and not failed:
            console.print("all numbers agree")
        if self.json:
            print(json.dumps(results))
        return int(failed)
