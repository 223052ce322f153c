"""What figures measure, on maps whose behaviour is known."""

import numpy as np
import pytest
import torch
from problems import integrator
from torch import nn

from equilibria import Budget, EquilibriumModel
from equilibria.diagnostics import from_function
from equilibria.nets import ConvNet
from equilibria.reproduction.measures.accuracy_curve import AccuracyCurve
from equilibria.reproduction.measures.agreement import FourAgreements
from equilibria.reproduction.measures.common import instances
from equilibria.reproduction.measures.path_metrics import (
    AdversarialStarts,
    JacobianNorm,
    SwappedStarts,
    counted,
    resized,
)
from equilibria.reproduction.measures.settling import Settling
from equilibria.reproduction.measures.solver_distance import SolverDistance
from equilibria.reproduction.measures.state_paths import StatePaths, apart, limits_apart
from equilibria.solvers import Picard
from equilibria.tasks import PrefixSum
from equilibria.training import Recipe

RECIPE = Recipe(task=PrefixSum(), net=ConvNet(8, groups=2))


def on_bits(step):
    """A model of prefix sums whose state is a number for each bit, read as the logit of 1."""
    return from_function(step, init=torch.zeros_like, readout=lambda z: torch.cat([-z, z], 1))


def test_paths_of_a_contraction_meet_and_those_of_an_integrator_do_not():
    measure = StatePaths(16, steps=60, before=4, inputs=6)
    (met,) = measure.rows(on_bits(lambda z, x: 0.5 * z + x), RECIPE)
    assert max(met["apart_at_last"]) < 1e-5 < min(met["apart_at_first"])
    ends = np.array(met["paths"])[:, -1]
    assert np.ptp(ends, axis=0).max() < 1e-4
    (kept,) = measure.rows(
        EquilibriumModel(nn.Identity(), lambda z, x: integrator(z), on_bits(None).readout, init=lambda x: x), RECIPE
    )
    assert min(kept["apart_at_last"]) > 0.01
    assert np.array(kept["paths"]).shape == (5, 61, 2)


def test_paths_on_one_cycle_have_one_limit_in_any_phase():
    """The state turns a quarter round at every step, from starts that differ by quarters: the same four states."""
    flip = lambda z, x: torch.stack([-z[:, 1], z[:, 0]], 1)  # noqa: E731
    start = torch.tensor([[1.0, 0.0]])
    ends = [start, flip(start, None), -start]
    orbits = [[end, flip(end, None), -end, -flip(end, None)] for end in ends]
    assert limits_apart(ends, orbits).item() == 0
    assert apart(ends).item() > 1
    assert limits_apart([start, 3 * start], [[start], [3 * start, 4 * start]]).item() == pytest.approx(1.0)
    turning = EquilibriumModel(nn.Identity(), lambda z, x: -z, on_bits(None).readout, init=lambda x: x)
    (row,) = StatePaths(16, steps=9, before=3, inputs=6, phases=4).rows(turning, RECIPE)
    both = zip(row["apart_in_the_limit"], row["apart_at_last"], strict=True)
    assert all(0.1 < limit <= last for limit, last in both)  # cycles of two states each, and no state in two
    assert 0 <= row["score"] <= row["partial_score"] <= 1


def test_relative_distances_do_not_depend_on_the_unit():
    states = [torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])]
    assert apart(states).item() == pytest.approx(5 / 3.5)
    assert apart([7 * state for state in states]).item() == pytest.approx(5 / 3.5)
    assert apart([states[0]] * 3).item() == 0


def test_a_curve_is_what_evaluating_after_each_number_of_steps_gives():
    model, steps = RECIPE.build(), (1, 2, 5, 9)
    for row in AccuracyCurve((8, 12), 10, steps).rows(model, RECIPE):
        batch = instances(RECIPE.task, row["difficulty"], 10)
        for step, right in zip(row["at"], row["partial_scores"], strict=True):
            with torch.no_grad():
                answer = model(batch.x, solver=Picard(), budget=Budget(step)).prediction
            assert right == pytest.approx(RECIPE.task.partial_score(answer, batch).mean().item(), abs=1e-4)


def test_costs_are_counted_exactly():
    steps, examples = 4, 3
    rows = [
        measure.rows(RECIPE.build(), RECIPE)[0]
        for measure in (
            SwappedStarts(8, examples, steps, restarts=2),
            JacobianNorm(8, examples, steps, probes=5),
            AdversarialStarts(8, examples, steps, updates=2, guesses=1),
        )
    ]
    aligned, jacobian, attacked = rows
    assert (aligned["forward"], aligned["backward"]) == (3 * steps, 0)  # the usual start and two others
    assert jacobian["backward"] == 5 * steps + 1  # the one is a check that there are gradients at all
    assert attacked["backward"] > 0
    assert attacked["forward"] > aligned["forward"]


def test_longer_states_answer_the_same_and_have_the_same_alignment():
    model = RECIPE.build()
    x = instances(RECIPE.task, 8, 4).x
    with torch.no_grad(), counted(model) as cost:
        one, other = (each(x, budget=Budget(6)) for each in (model, resized(model, 2.0)))
    torch.testing.assert_close(one.prediction, other.prediction)
    torch.testing.assert_close(2 * one.solution.z, other.solution.z)
    assert cost.forward == 2 * 6 * 4
    usual, longer = (SwappedStarts(8, 4, 6, size, restarts=2).rows(model, RECIPE)[0]["value"] for size in (1.0, 2.0))
    assert usual == pytest.approx(longer, abs=1e-5)


def test_what_fools_aa_and_what_notices_it():
    measure = FourAgreements(16, 12, 3, 40)

    def measured(step):
        return measure.rows(on_bits(step), RECIPE)[0]

    sound = measured(lambda z, x: 0.5 * z + x)
    assert sound["alignment"] == sound["same_answer"] == pytest.approx(1.0)
    assert sound["centred"] == pytest.approx(1.0, abs=1e-5)
    assert (sound["zero"], sound["growth"]) == (0.0, pytest.approx(1.0, abs=1e-3))
    zero = measured(lambda z, x: 0 * z)
    assert (zero["alignment"], zero["zero"]) == (1.0, 1.0)
    constant = measured(lambda z, x: 0.5 * z + 1)
    assert constant["alignment"] == pytest.approx(1.0)
    assert constant["centred"] < 0.1
    growing = measured(lambda z, x: 1.1 * z + 1 + 0.5 * x)
    assert growing["alignment"] > 0.9
    assert growing["growth"] > 5


def test_two_solvers_meet_where_there_is_one_fixed_point():
    (row,) = SolverDistance(16, 4, 40).rows(on_bits(lambda z, x: 0.5 * z + x), RECIPE)
    assert [len(line) for line in row["apart_each"]] == [40] * 4
    assert max(line[0] for line in row["apart_each"]) == 0.0  # the first step is the same
    assert max(line[-1] for line in row["apart_each"]) < 1e-5


def test_only_what_keeps_moving_is_unsettled():
    (still,) = Settling(16, 10, 60).rows(on_bits(lambda z, x: 0.5 * z + x), RECIPE)
    assert (still["unsettled"], still["cycle_sizes"], still["unsettled_score"]) == (0, [], None)
    alternating = on_bits(lambda z, x: torch.where((z - x).abs() > 0.1, x, 2 * x))  # 0, x, 2 x, x, 2 x, ...
    (moving,) = Settling(16, 10, 60).rows(alternating, RECIPE)
    assert moving["unsettled"] == 10
    assert moving["cycle_sizes"] == pytest.approx([0.75] * 10)  # the mean of |x - 2 x| / |x| and |2 x - x| / |2 x|
