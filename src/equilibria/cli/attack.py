"""`equilibria attack`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from equilibria.cli.options import Flag, use_threads
from equilibria.core.budget import Budget
from equilibria.diagnostics import alignment_score, attack
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.tasks import Batch, Task
from equilibria.training import Run
from equilibria.training.measurement import SEED

RESTARTS = 10  # of the ordinary AA score (paper, Algorithm 1)
NUMBERS_AT_ONCE = 2**25  # numbers in the states of all unrolled steps; backpropagation needs about ten times as many


@dataclass(frozen=True)
class AttackResult:
    """The AA score and the score of a net, with and without an attack."""

    folder: str
    difficulty: Any
    steps: int
    examples: int
    radius: float | None
    alignment: float  # AA, from other examples' states
    attacked_alignment: float  # AA under attack
    score: float
    attacked_score: float
    diverged: int  # attacked starts that diverged; `attacked_alignment` excludes them
    alignment_diverged: int  # the same for `alignment`


@dataclass(frozen=True)
class AttackCommand:
    """Search for initial states that lead a trained net to other limits, and show their effect on its answers.

    The search optimises the initial state of each example with L-BFGS, by backpropagation through the solve (the
    paper's stress test). The AA score and the answers of a path-independent net do not change.
    """

    run_folder: tyro.conf.Positional[Path]
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
    threads: int = 0
    """Number of PyTorch threads. 0 keeps PyTorch's default."""
    json: Flag = False
    """Print only JSON on standard output."""

    def run(self) -> int:
        use_threads(self.threads)
        run = Run(self.run_folder)
        if not (run.folder / "recipe.json").is_file():
            raise ValueError(f"{run.folder} is not the folder of a run: it has no recipe.json")
        if self.examples < 2:
            raise ValueError(
                f"--examples must be at least 2, got {self.examples}; searches start from the limits of other examples"
            )
        difficulty, steps = self._point(run)
        task = run.recipe.task.held_out()
        batch = task.sample(self.examples, difficulty, torch.Generator().manual_seed(SEED))
        result = self._attack_batch(run.model(), task, batch, run.recipe.evaluation.budget(steps))
        if self.json:
            print(json.dumps(jsonable(asdict(result))))
        else:
            where = f"at {result.difficulty}, {result.steps} steps, {result.examples} examples"
            Console().print(f"{result.folder} {where}", soft_wrap=True)
            Console().print(_table(result))
        return 0

    def _point(self, run: Run) -> tuple[Any, int]:
        """Difficulty and steps, from the flags or else from the recipe."""
        known = {difficulty: steps for difficulty, steps, *_ in run.recipe.evaluation.final_points()}
        known |= dict(run.recipe.evaluation.at)
        difficulty = self.difficulty
        if difficulty is None:
            if not run.recipe.evaluation.at:
                raise ValueError("the recipe has no evaluation; pass --difficulty and --steps")
            difficulty = run.recipe.evaluation.at[0][0]
        difficulty = int(difficulty) if float(difficulty).is_integer() else difficulty
        if not self.steps and difficulty not in known:
            raise ValueError(f"the recipe does not evaluate difficulty {difficulty}; pass --steps")
        return difficulty, self.steps or known[difficulty]

    def _attack_batch(self, model: EquilibriumModel, task: Task, batch: Batch, budget: Budget) -> AttackResult:
        rng = torch.Generator().manual_seed(self.seed)
        alignment = alignment_score(model, batch.x, restarts=min(RESTARTS, len(batch.x) - 1), budget=budget, rng=rng)
        with torch.no_grad():
            state = model.init(*model.inject(batch.x[:1]))
        per_example = state.numel() * min(self.through or budget.steps, budget.steps) * max(1, self.guesses)
        count = max(2, NUMBERS_AT_ONCE // per_example)
        parts = [batch._replace(x=x, y=y) for x, y in zip(batch.x.split(count), batch.y.split(count), strict=True)]
        console = Console(stderr=True)
        cosines, diverged, usual, attacked = [], 0, [], []
        for part in track(parts, "attacking", console=console, disable=not console.is_terminal):
            found = attack(
                model,
                part.x,
                budget=budget,
                guesses=self.guesses,
                updates=self.updates,
                radius=self.radius,
                through=self.through or None,
                rng=rng,
            )
            scores = found.scores(model, task, part)
            cosines.append(found.cosine)
            usual.append(scores.usual)
            attacked.append(scores.attacked)
            diverged += int(found.diverged.sum())
        return AttackResult(
            str(self.run_folder),
            batch.difficulty,
            budget.steps,
            len(batch.x),
            self.radius,
            alignment.score.double().nanmean().item(),
            torch.cat(cosines).double().nanmean().item(),
            torch.cat(usual).double().mean().item(),
            torch.cat(attacked).double().mean().item(),
            diverged,
            int(alignment.diverged.sum()),
        )


def _table(result: AttackResult) -> Table:
    table = Table(box=None, padding=(0, 1))
    for heading in ("", "AA", "score", "diverged"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    table.add_row("usual", f"{result.alignment:.4f}", f"{result.score:.4g}", str(result.alignment_diverged))
    table.add_row("attacked", f"{result.attacked_alignment:.4f}", f"{result.attacked_score:.4g}", str(result.diverged))
    return table
