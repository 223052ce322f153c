"""`equilibria attack`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.table import Table

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import make_console
from equilibria.cli.options import MeasuringFlags, choose_point, sample_at, use_threads
from equilibria.cli.progress_bar import MeasuringBar
from equilibria.core.budget import Budget
from equilibria.diagnostics import Attack, alignment_score, attack
from equilibria.io.files import to_json
from equilibria.model import EquilibriumModel
from equilibria.tasks import Batch, Task
from equilibria.training import Run
from equilibria.training.measurement import SEED

RESTARTS = 10  # of the ordinary AA score (paper, Algorithm 1)
UNROLLED_NUMBERS = 2**25  # numbers in the states of all unrolled steps; backpropagation needs about ten times as many


@dataclass(frozen=True)
class AttackCommand(MeasuringFlags):
    """Search for initial states that lead a trained net to other limits, and show their effect on its answers.

    The search optimises the initial state of each example with L-BFGS, by backpropagation through the solve (the
    paper's stress test). The AA score and the answers of a path-independent net do not change.
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """Folder of a finished run, for example results/prefix_sum/fast/seed-0."""
    difficulty: float | None = None
    """Difficulty of the instances. Defaults to the first difficulty that the recipe evaluates."""
    steps: int = 0
    """Steps per solve. 0 uses the steps of the recipe's evaluation at that difficulty."""
    examples: int = 100
    """Instances to attack. The paper attacks 500."""
    guesses: int = 3
    """Searches per instance, each from a different initial state."""
    updates: int = 50
    """Maximum number of L-BFGS updates per search."""
    radius: float | None = None
    """Search only within this distance of the usual initial state. Defaults to no bound."""
    through: int = 0
    """Unroll only this many steps in the search, to save time and memory. 0 unrolls all. Scores use the full solve."""
    seed: int = 0
    """Seed of the initial states of the searches."""

    def run(self) -> int:
        self.require_at_least(steps=0, guesses=1, updates=0, through=0)
        self.require_positive("radius")
        use_threads(self.threads)
        run = Run(self.run_folder)
        if self.examples < 2:
            raise UsageError(
                f"--examples must be at least 2, got {self.examples}; searches start from the limits of other examples"
            )
        difficulty, steps = choose_point(run.recipe.evaluation, self.difficulty, self.steps)
        if difficulty is None:
            raise UsageError("the recipe has no evaluation; pass --difficulty and --steps")
        if not steps:
            raise UsageError(f"the recipe has no number of steps for difficulty {difficulty}; pass --steps")
        task = run.recipe.task.held_out()
        batch = sample_at(task, self.examples, difficulty, SEED)
        result = self._attack_batch(run.model(), task, batch, run.recipe.evaluation.budget(steps))
        if self.json:
            print(to_json(result))
        else:
            where = f"at {difficulty}, {steps} steps, {self.examples} examples"
            make_console().print(f"{self.run_folder} {where}", soft_wrap=True)
            make_console().print(_table(result))
        return 0

    def _attack_batch(self, model: EquilibriumModel, task: Task, batch: Batch, budget: Budget) -> dict[str, Any]:
        """The AA score and the score of a net, with and without an attack."""
        rng = torch.Generator().manual_seed(self.seed)
        alignment = alignment_score(model, batch.x, restarts=min(RESTARTS, len(batch.x) - 1), budget=budget, rng=rng)
        with torch.no_grad():
            state = model.init(*model.inject(batch.x[:1]))
        per_example = state.numel() * min(self.through or budget.steps, budget.steps) * max(1, self.guesses)
        count = max(2, UNROLLED_NUMBERS // per_example)
        parts = [batch._replace(x=x, y=y) for x, y in zip(batch.x.split(count), batch.y.split(count), strict=True)]
        cosines, diverged, usual, attacked = [], 0, [], []
        with MeasuringBar(make_console(stderr=True), "attacking") as bar:
            for number, part in enumerate(parts):
                bar(number / len(parts))
                found = self._attack(model, part, budget, rng)
                scores = found.scores(model, task, part)
                cosines.append(found.cosine)
                usual.append(scores.usual)
                attacked.append(scores.attacked)
                diverged += int(found.diverged.sum())
        return {
            "folder": str(self.run_folder),
            "difficulty": batch.difficulty,
            "steps": budget.steps,
            "examples": len(batch.x),
            "radius": self.radius,
            "alignment": alignment.score.double().nanmean().item(),  # from other examples' states
            "attacked_alignment": torch.cat(cosines).double().nanmean().item(),
            "score": torch.cat(usual).double().mean().item(),
            "attacked_score": torch.cat(attacked).double().mean().item(),
            "diverged": diverged,  # attacked starts; they do not count in `attacked_alignment`
            "alignment_diverged": int(alignment.diverged.sum()),  # the same for `alignment`
        }

    def _attack(self, model: EquilibriumModel, part: Batch, budget: Budget, rng: torch.Generator) -> Attack:
        return attack(
            model,
            part.x,
            budget=budget,
            guesses=self.guesses,
            updates=self.updates,
            radius=self.radius,
            through=self.through or None,
            rng=rng,
        )


def _table(result: dict[str, Any]) -> Table:
    table = Table(box=None)
    for heading in ("", "AA", "score", "diverged"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, prefix, diverged in (("usual", "", "alignment_diverged"), ("attacked", "attacked_", "diverged")):
        alignment, score = result[f"{prefix}alignment"], result[f"{prefix}score"]
        table.add_row(name, f"{alignment:.4f}", f"{score:.4g}", str(result[diverged]))
    return table
