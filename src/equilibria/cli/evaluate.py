"""`equilibria evaluate`."""

import json
from dataclasses import dataclass

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import Flag, Folders, make_console
from equilibria.cli.model_evaluation import ModelFlags
from equilibria.cli.options import Points, as_points, check_points, expand_folders, use_threads
from equilibria.cli.progress_bar import MeasuringBar, measurement_table
from equilibria.io.files import jsonable
from equilibria.training import Run
from equilibria.training.measurement import measure_final
from equilibria.training.runs import compare_measurements


@dataclass(frozen=True)
class Evaluate(ModelFlags):
    """Measure trained nets: score, alignment, residual and steps by difficulty.

    Evaluations of a net always use the same instances, so `--check` can compare the results with the numbers in the
    run's summary. The exit code is 1 if they differ.

    To evaluate a model of your own on your own data, pass module:object instead of folders, with --data.
    """

    runs: Folders = ()
    """Folders of finished runs, or folders with runs below them, for example results/prefix_sum/fast; or
    module:object with --data."""
    at: Points = ()
    """Pairs of a difficulty and a number of steps. Defaults to those of the recipe."""
    examples: int = 0
    """Instances of each difficulty. 0 uses the number in the recipe."""
    check: Flag = False
    """Compare with the recorded numbers. Cannot be combined with --at or --examples."""

    def run(self) -> int:
        if self.data:
            return self._run_model()
        mine = [name for name in vars(ModelFlags)["__annotations__"] if getattr(self, name) not in ("", 0, None)]
        if mine:
            raise UsageError(f"--{mine[0]} applies to a model of your own; pass module:object and --data")
        if self.check and (self.at or self.examples):
            raise UsageError("--check repeats the recorded measurements; remove --at and --examples")
        if not self.runs:
            raise UsageError("pass at least one run folder; `equilibria list runs` shows them", "evaluate")
        self.require_at_least(examples=0)
        use_threads(self.threads)
        console, results, failed = make_console(stderr=self.json), [], False
        for folder in expand_folders(self.runs):
            run = Run(folder)
            recipe, at, examples = run.recipe, as_points(self.at), self.examples or None
            check_points(at, recipe.task)
            final = run.summary.get("final", "full") if self.check else "full"
            with MeasuringBar(make_console(stderr=True), f"measuring {folder}") as bar:
                measured = measure_final(run.model(), recipe, examples=examples, at=at, final=final, on_progress=bar)
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

    def _run_model(self) -> int:
        if len(self.runs) != 1 or self.check or self.at or self.examples:
            raise UsageError("with --data, pass one model as module:object, and no --check, --at or --examples")
        return self.evaluate_model(str(self.runs[0]))
