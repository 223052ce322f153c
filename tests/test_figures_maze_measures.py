"""The measures behind the figures of mazes agree with the model."""

import pytest
import torch

from equilibria.core.budget import Budget
from equilibria.reproduction import SCALES, Category
from equilibria.reproduction.maze_nets import maze_recipe
from equilibria.reproduction.measures.attacked import Stress
from equilibria.reproduction.measures.common import best_steps, instances, split
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.measures.two_solvers import TwoSolvers
from equilibria.tasks import PrefixSum

SMOKE = SCALES["smoke"]


@pytest.fixture(scope="module")
def untrained():
    recipe = maze_recipe(SMOKE, Category.MIXED_RANDOM_DEPTH)
    return recipe, recipe.build()


def test_the_best_number_of_steps_is_the_best(untrained):
    recipe, _ = untrained
    scores = [0.1, 0.4, 0.9, 0.9, 0.2]

    class Told(PrefixSum):
        """A task that scores a state by the step it is in."""

        def score(self, prediction, batch):
            return torch.full((len(batch.x),), scores[int(prediction[0].item()) - 1])

    from equilibria import EquilibriumModel

    counting = EquilibriumModel(lambda x: x[:, :1, 0], lambda z, u: z + 1, lambda z: z, budget=Budget(5))
    batch = instances(Told(), 4, 3)
    assert best_steps(counting, Told(), batch, recipe.solver, 5) == 3


def test_parts_of_a_batch_are_the_batch(untrained):
    batch = instances(maze_recipe(SMOKE, Category.MIXED_RANDOM_DEPTH).task, 9, 7)
    parts = split(batch, 2, at_once=3)
    assert [len(part.x) for part in parts] == [3, 2, 2]
    assert torch.equal(torch.cat([part.x for part in parts]), batch.x)


def test_a_profile_agrees_with_the_model(untrained):
    recipe, model = untrained
    (row,) = Profile((9,), 5, 2, 4, (6,)).rows(model, recipe)
    batch = instances(recipe.task, 9, 5)
    solution = model.equilibrium(batch.x, budget=Budget(6, tol=1e-4, halt_on_cycle=True))
    assert row["partial_score"] == pytest.approx(
        recipe.task.partial_score(model.readout(solution.z), batch).mean().item(), abs=1e-6
    )
    assert row["residual"] == pytest.approx(solution.residual.median().item(), rel=1e-4)
    assert row["steps"] == 6
    assert row["examples"] == 5
    assert row["aligned"] == 4


def test_an_attack_is_never_better_than_its_first_guesses(untrained):
    recipe, model = untrained
    (row,) = Stress(9, 3, 2, 1, 1, 2, 4).rows(model, recipe)
    assert row["attacked_alignment"] <= 1.0
    assert row["attacked_alignment"] <= row["alignment"] + 1e-3  # it begins from the swapped states of the AA score
    assert all(
        one <= other for one, other in zip(row["attacked_alignment_each"], row["guessed_alignment_each"], strict=True)
    )
    for name in ("alignment", "attacked_alignment"):
        assert sum(row[f"{name}_each"]) / 3 == pytest.approx(row[name], abs=1e-3)


def test_two_solvers_are_compared_on_the_same_mazes(untrained):
    recipe, model = untrained
    first, second = TwoSolvers(9, 4, 2, 5).rows(model, recipe)
    assert len(first["picard_residuals"]) == 5
    assert first["picard_residuals"][0] == first["broyden_residuals"][0]  # one step is the same for both
    assert first["picard_residuals"] != second["picard_residuals"]
    assert len(first["picard_traces"]) == 4
    assert "picard_traces" not in second
