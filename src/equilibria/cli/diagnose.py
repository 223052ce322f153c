"""`equilibria diagnose`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import Flag
from equilibria.cli.objects import find_object
from equilibria.cli.options import MeasuringFlags, choose_point, sample_at, use_threads
from equilibria.diagnostics import diagnose
from equilibria.diagnostics.doctor._diagnose import FEWEST_STEPS, LOOKAHEAD
from equilibria.tasks import Batch
from equilibria.training import Run
from equilibria.training.measurement import SEED


@dataclass(frozen=True)
class DiagnoseCommand(MeasuringFlags):
    """Diagnose a looped model: whether it settles, whether its start matters, and whether more steps will help.

    Pass the folder of a run, or `module:object` for your own model. The object must be, or return when called,
    (model, inputs) or (model, inputs, targets).
    """

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """Folder of a run, or module:object."""
    difficulty: float | None = None
    """Difficulty of the instances of a run. Defaults to the first difficulty that the recipe evaluates."""
    trained_steps: int = 0
    """Trained steps, with which more steps are compared. 0 uses the recipe's largest depth or the model's budget."""
    steps: int = 0
    """Steps per solve. 0 uses ten times the trained steps, at least 200, and at least the steps of the recipe's
    evaluation."""
    seconds: float = 60.0
    """About how long the diagnosis may take. The report says what was cut."""
    examples: int = 64
    """Number of inputs."""
    restarts: int = 5
    """Restarts per example."""
    no_attack: Flag = False
    """Skip the search for adversarial starts."""
    html: Path | None = None
    """Also write an HTML page with figures to this file."""

    def run(self) -> int:
        self.require_at_least(trained_steps=0, steps=0, restarts=1)
        self.require_positive("seconds", finite=False)
        use_threads(self.threads)
        if self.html and self.html.is_dir():
            raise UsageError(f"--html {self.html} is a folder; pass a file, such as {self.html / 'report.html'}")
        console = Console(stderr=self.json)
        case = self._case()
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
            bar = progress.add_task("", total=1.0)
            diagnosis = diagnose(
                **case,
                name=self.what.rstrip("/"),
                seconds=self.seconds,
                restarts=self.restarts,
                attacks=not self.no_attack,
                on_progress=lambda name, share: progress.update(bar, description=name, completed=share),
            )
        if self.html:
            diagnosis.save_html(self.html)
            console.print(f"wrote {self.html}", soft_wrap=True)
        if self.json:
            print(diagnosis.to_json(), end="")
        else:
            console.print(diagnosis)
        return 0

    def _case(self) -> dict[str, Any]:
        """The model, its inputs and its budget: arguments of `diagnose`."""
        if self.examples < 2:
            raise UsageError(f"--examples must be >= 2, got {self.examples}; a diagnosis compares examples")
        if (Path(self.what) / "recipe.json").is_file():
            return self._run_case(Run(self.what))
        module, colon, name = self.what.partition(":")
        if not (module and colon and name):
            raise UsageError(f"{self.what} is neither the folder of a run nor module:object")
        if self.difficulty is not None:
            raise UsageError(f"--difficulty applies only to runs; {self.what} has its own inputs")
        steps = {"budget": self.steps or None, "trained_steps": self.trained_steps or None}
        return {**self._object_case(module, name), **steps}

    def _run_case(self, run: Run) -> dict[str, Any]:
        difficulty, steps = choose_point(run.recipe.evaluation, self.difficulty, self.steps)
        task = run.recipe.task.held_out()
        difficulty = task.train_difficulties[-1] if difficulty is None else difficulty
        batch = sample_at(task, self.examples, difficulty, SEED)

        def score(prediction: Tensor, targets: Tensor) -> Tensor:
            return task.score(prediction, Batch(batch.x, targets, difficulty))  # a task may need the input

        trained = self.trained_steps or run.recipe.depth.most
        budget = self.steps or max(FEWEST_STEPS, LOOKAHEAD * trained, steps)
        if not self.trained_steps and trained > budget:
            trained = None
        case = {"model": run.model(), "inputs": batch.x, "targets": batch.y, "budget": budget, "trained_steps": trained}
        return case | {"score": score, "higher_is_better": task.higher_is_better}

    def _object_case(self, module: str, name: str) -> dict[str, Any]:
        thing = find_object(f"{module}:{name}")
        if isinstance(thing, nn.Module) or hasattr(thing, "step"):
            raise ValueError(
                f"{module}:{name} is a model without inputs; pass a tuple (model, inputs) or (model, inputs, "
                "targets), or a function that returns one"
            )
        case = thing() if callable(thing) else thing
        if not isinstance(case, tuple) or not 2 <= len(case) <= 3:
            raise ValueError(
                f"{module}:{name} must be, or return, (model, inputs) or (model, inputs, targets), got a "
                f"{type(case).__name__}"
            )
        model, inputs, targets = (*case, None)[:3]
        if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor | None):
            kinds = f"{type(inputs).__name__} and {type(targets).__name__}"
            raise ValueError(f"inputs and targets of {module}:{name} must be tensors, got {kinds}")
        if targets is None or len(inputs) == len(targets):  # otherwise `diagnose` raises; a cut could hide the mismatch
            inputs, targets = inputs[: self.examples], None if targets is None else targets[: self.examples]
        return {"model": model, "inputs": inputs, "targets": targets}
