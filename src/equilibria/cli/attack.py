"""`equilibria attack`."""

import json
import math
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
from equilibria.model import EquilibriumModel
from equilibria.tasks import Batch, Task
from equilibria.training import Run
from equilibria.training.measurement import SEED

RESTARTS = 10  # examples whose states the ordinary AA score starts from (paper, Algorithm 1)
NUMBERS_AT_ONCE = 2**25  # in the states of all unrolled steps; backpropagation holds about ten times as many


@dataclass(frozen=True)
class Attacked:
    """What an attack did to a net."""

    folder: str
    difficulty: Any
    steps: int
    examples: int
    radius: float | None
    alignment: float  # AA, from other examples' states
    attacked_alignment: float  # AA under attack
    score: float
    attacked_score: float
    diverged: int  # attacked starts that led to infinity, and are left out of `attacked_alignment`
    alignment_diverged: int  # the same of `alignment`


@dataclass(frozen=True)
class Attack:
    """Search initial states that make a trained net end elsewhere, and show what they do to its answers.

    L-BFGS on the initial state, example by example, by backpropagation through the solve (the paper's stress test of
    path independence). A path-independent net keeps its AA score and its answers.
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of a finished run, for example results/prefix_sum/fast/seed-0."""
    difficulty: float | None = None
    """Of the instances; left out: the first that the recipe evaluates at."""
    steps: int = 0
    """Cell evaluations of a solve; 0: as many as the recipe gives that difficulty."""
    examples: int = 100
    """Instances to attack; the paper takes 500."""
    guesses: int = 3
    """Searches per instance, each from another state."""
    updates: int = 50
    """Updates of L-BFGS, at most, in each."""
    radius: float | None = None
    """Search only initial states this close to the usual one; left out: anywhere."""
    through: int = 0
    """Unroll only the first so many steps in the search, to save time and memory; 0: all. Judged are all steps."""
    seed: int = 0
    """Decides the states that the searches begin from."""
    threads: int = 0
    """Threads of torch; 0 leaves torch's choice."""
    json: Flag = False
    """Print JSON, and nothing else, on standard output."""

    def run(self) -> int:
        use_threads(self.threads)
        run = Run(self.run_folder)
        if not (run.folder / "recipe.json").is_file():
            raise ValueError(f"{run.folder} is not the folder of a run: it has no recipe.json")
        if self.examples < 2:
            raise ValueError(
                f"--examples must be at least 2, got {self.examples}; searches begin from other ones' states"
            )
        difficulty, steps = self._point(run)
        task = run.recipe.task.held_out()
        batch = task.sample(self.examples, difficulty, torch.Generator().manual_seed(SEED))
        result = self._attacked(run.model(), task, batch, run.recipe.evaluation.budget(steps))
        if self.json:
            print(json.dumps({name: _plain(value) for name, value in asdict(result).items()}))
        else:
            where = f"at {result.difficulty}, {result.steps} steps, {result.examples} examples"
            Console().print(f"{result.folder} {where}", soft_wrap=True)
            Console().print(_table(result))
        return 0

    def _point(self, run: Run) -> tuple[Any, int]:
        """Difficulty and steps: what the flags say, and the recipe where they do not."""
        known = {difficulty: steps for difficulty, steps, *_ in run.recipe.evaluation.final_points()}
        known |= dict(run.recipe.evaluation.at)
        difficulty = self.difficulty
        if difficulty is None:
            if not run.recipe.evaluation.at:
                raise ValueError("the recipe evaluates nowhere; say --difficulty and --steps")
            difficulty = run.recipe.evaluation.at[0][0]
        difficulty = int(difficulty) if float(difficulty).is_integer() else difficulty
        if not self.steps and difficulty not in known:
            raise ValueError(f"the recipe does not say how many steps difficulty {difficulty} takes; say --steps")
        return difficulty, self.steps or known[difficulty]

    def _attacked(self, model: EquilibriumModel, task: Task, batch: Batch, budget: Budget) -> Attacked:
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
        return Attacked(
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


def _table(result: Attacked) -> Table:
    table = Table(box=None, padding=(0, 1))
    for heading in ("", "AA", "score", "diverged"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    table.add_row("usual", f"{result.alignment:.4f}", f"{result.score:.4g}", str(result.alignment_diverged))
    table.add_row("attacked", f"{result.attacked_alignment:.4f}", f"{result.attacked_score:.4g}", str(result.diverged))
    return table


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
