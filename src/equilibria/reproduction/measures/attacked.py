"""What is left of a net's answers when its start is chosen by an adversary."""

from dataclasses import dataclass

import torch

from equilibria.core.budget import Budget
from equilibria.diagnostics import alignment_score, attack
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure, Row
from equilibria.reproduction.measures.profile import SEED, best_steps, instances, mean, rounded, split
from equilibria.reproduction.measures.rounding import depends, redrawn
from equilibria.training import Recipe

AT_ONCE = 64  # starts that are searched for together: the unrolled solve of each is in memory


@dataclass(frozen=True)
class Stress(Measure):
    """AA and accuracy with and without an attack by L-BFGS (paper, Table 1), and AA from its worst first guesses.

    With `search` the net takes the number of steps, up to this, after which it scores best; otherwise `steps`.
    Gradients go `through` so many steps; where an attacked start leads is judged with all of them.
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

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        batch = instances(recipe.task, self.difficulty, self.examples)
        budget = Budget(self.steps, tol=self.tol, halt_on_cycle=True)
        if self.search:
            budget = Budget(best_steps(model, recipe.task, batch, recipe.solver, self.search))
        rng = torch.Generator().manual_seed(SEED)
        alignment, guessed, attacked, usual_score, attacked_score, diverged = [], [], [], [], [], 0
        for part in split(batch, self.restarts + 1, at_once=max(1, AT_ONCE // self.guesses)):
            aligned = alignment_score(model, part.x, restarts=self.restarts, budget=budget, rng=rng)
            found = attack(
                model,
                part.x,
                budget=budget,
                guesses=self.guesses,
                updates=self.updates,
                through=self.through,
                rng=rng,
            )
            scores = found.scores(model, recipe.task, part)
            alignment.append(aligned.score)
            guessed.append(found.guessed)
            attacked.append(found.cosine)
            usual_score.append(scores.usual)
            attacked_score.append(scores.attacked)
            diverged += int(found.diverged.sum())
        alignment, guessed, attacked = torch.cat(alignment), torch.cat(guessed), torch.cat(attacked)
        usual_score, attacked_score = torch.cat(usual_score), torch.cat(attacked_score)
        return [
            {
                "difficulty": self.difficulty,
                "steps": budget.steps,
                "examples": self.examples,
                "alignment": mean(alignment),
                "score": mean(usual_score),
                "attacked_alignment": mean(attacked),
                "attacked_score": mean(attacked_score),
                "attacked_diverged": diverged,
                "alignment_each": rounded(alignment),
                "guessed_alignment_each": rounded(guessed),
                "attacked_alignment_each": rounded(attacked),
                "redrawn": {
                    "alignment": redrawn(alignment, depends(alignment)),
                    "guessed_alignment": redrawn(guessed, depends(guessed)),
                    "attacked_alignment": redrawn(attacked, depends(attacked)),
                    "attacked_score": redrawn(attacked_score, depends(attacked)),
                },
            }
        ]
