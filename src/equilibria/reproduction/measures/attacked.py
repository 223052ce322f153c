"""The alignment and the accuracy of a net when an adversary chooses its starts."""

from dataclasses import dataclass
from typing import Any

import torch

from equilibria.core.budget import Budget
from equilibria.diagnostics import alignment_score, attack
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import (
    SEED,
    best_steps,
    instances,
    mean,
    path_dependent,
    rounding_stderr,
    split,
)
from equilibria.training import Recipe

SEARCHES_AT_ONCE = 64  # starts that are searched for together; the unrolled solve of each is in memory
SCORES = ("alignment", "guessed_alignment", "attacked_alignment", "score", "attacked_score")


@dataclass(frozen=True)
class Stress(Measure):
    """Alignment and accuracy with and without an attack by L-BFGS (paper, Table 1).

    Args:
        guesses: first guesses for each example. The alignment from the worst of them is measured too.
        through: steps that gradients go through. The attacked start is scored with all steps.
        search: take the number of steps, up to this, with the best score, instead of `steps`.
    """

    version = 3

    difficulty: int
    examples: int
    restarts: int
    updates: int
    guesses: int
    through: int
    steps: int
    search: int = 0
    tol: float = 1e-4

    @property
    def fields(self) -> Fields:
        alignments = SCORES[:3]
        return {
            **settings("difficulty", "steps", "examples"),
            **dict.fromkeys(alignments, Field(Kind.ALIGNMENT)),
            **{f"{name}_each": Field(Kind.ALIGNMENT, error=name) for name in alignments},
            **dict.fromkeys(("score", "attacked_score"), Field(Kind.SHARE)),
            "attacked_diverged": Field(Kind.COUNT),
            "rounding_error": Field(Kind.ROUNDING_ERROR),
        }

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        batch = instances(recipe.task, self.difficulty, self.examples)
        budget = Budget(self.steps, tol=self.tol, halt_on_cycle=True)
        if self.search:
            budget = Budget(best_steps(model, recipe.task, batch, recipe.solver, self.search))
        rng, parts, diverged = torch.Generator().manual_seed(SEED), [], 0
        how: dict[str, Any] = {"guesses": self.guesses, "updates": self.updates, "through": self.through}
        for part in split(batch, self.restarts + 1, at_once=max(1, SEARCHES_AT_ONCE // self.guesses)):
            aligned = alignment_score(model, part.x, restarts=self.restarts, budget=budget, rng=rng)
            found = attack(model, part.x, budget=budget, rng=rng, **how)
            scores = found.scores(model, recipe.task, part)
            parts.append((aligned.score, found.guessed, found.cosine, scores.usual, scores.attacked))
            diverged += int(found.diverged.sum())
        each = {name: torch.cat(column) for name, column in zip(SCORES, zip(*parts, strict=True), strict=True)}
        moved = {name: path_dependent(each[name]) for name in SCORES[:3]}
        error = {name: rounding_stderr(each[name], where) for name, where in moved.items()}
        error["attacked_score"] = rounding_stderr(each["attacked_score"], moved["attacked_alignment"])
        return [
            {
                "difficulty": self.difficulty,
                "steps": budget.steps,
                "examples": self.examples,
                **{name: mean(each[name]) for name in SCORES if name != "guessed_alignment"},
                "attacked_diverged": diverged,
                **{f"{name}_each": jsonable(each[name], digits=4) for name in moved},
                "rounding_error": error,
            }
        ]
