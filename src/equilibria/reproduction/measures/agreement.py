"""Four answers to the question whether restarts agree, side by side, with what each of them may miss."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.diagnostics import alignment_score
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import SEED, instances, mean, path_dependent, rounding_stderr, split
from equilibria.solvers import Picard
from equilibria.training import Recipe

CLOSE = 1e-2  # relative distance within which two lists of numbers are the same answer


@dataclass(frozen=True)
class FourAgreements(Measure):
    """Agreement of restarts by the cosine, the centred cosine, the distance and the answers, after plain iteration.

    `growth` is the norm of the state at the end relative to half-way, and `zero` the share of states that are exactly
    zero, which the cosine counts as agreement.
    """

    difficulty: int | float
    examples: int
    restarts: int
    steps: int

    @property
    def fields(self) -> Fields:
        return {
            **settings("difficulty", "examples", "steps"),
            **dict.fromkeys(("alignment", "centred", "same_answer"), Field(Kind.ALIGNMENT)),
            "distance": Field(Kind.DISTANCE),
            **dict.fromkeys(("partial_score", "constant", "zero"), Field(Kind.SHARE)),
            "growth": Field(Kind.RESIDUAL),
            "rounding_error": Field(Kind.ROUNDING_ERROR),
        }

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        task, rng = recipe.task, torch.Generator().manual_seed(SEED)

        def same(one: Tensor, other: Tensor, examples: Tensor) -> Tensor:
            """Whether two predictions are the same answer, (rows,) bool: classes in dimension 1, or numbers."""
            del examples
            if task.higher_is_better:
                return (one.argmax(1) == other.argmax(1)).reshape(len(one), -1).all(1)
            apart, size = (z.flatten(1).norm(dim=1) for z in (one - other, one))
            return apart <= CLOSE * size

        parts: dict[str, list[Tensor]] = {name: [] for name in self.fields if name not in self._plain}
        half = self.steps // 2
        for part in split(instances(task, self.difficulty, self.examples), self.restarts + 1):
            usual = model.equilibrium(part.x, solver=Picard(), budget=Budget(self.steps), keep=[half, self.steps])
            found = alignment_score(
                model,
                part.x,
                restarts=self.restarts,
                solver=Picard(),
                budget=Budget(self.steps),
                usual=usual,
                same_answer=same,
                rng=rng,
            )
            assert found.same_answer is not None
            with torch.no_grad():
                answer = model.readout(usual.z)
            before, after = (usual.kept[step].flatten(1).norm(dim=1) for step in (half, self.steps))
            numbers = {
                "alignment": found.score,
                "centred": found.state.centred,
                "distance": found.state.distance,
                "same_answer": found.same_answer,
                "partial_score": task.partial_score(answer, part),
                "constant": task.score(task.constant(part), part),
                "zero": after == 0,
                "growth": torch.where(before > 0, after / before, torch.nan),
            }
            for name, number in numbers.items():
                parts[name].append(number.double())
        each = {name: torch.cat(found) for name, found in parts.items()}
        moved = path_dependent(each["alignment"])
        return [
            {
                "difficulty": self.difficulty,
                "examples": self.examples,
                "steps": self.steps,
                **{name: mean(number) for name, number in each.items() if name != "growth"},
                "growth": jsonable(each["growth"].nanmedian().item()),
                "rounding_error": {
                    name: rounding_stderr(each[name], moved) for name in ("alignment", "centred", "same_answer")
                },
            }
        ]

    @property
    def _plain(self) -> tuple[str, ...]:
        return ("difficulty", "examples", "steps", "rounding_error")
