"""The figures of prefix sums with untrained nets: everything once, from the plan to the drawing."""

import json
import math

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from equilibria.reproduction import FIGURES, SCALES, Category
from equilibria.reproduction.engine.run import measure_block
from equilibria.reproduction.engine.store import add_net_columns
from equilibria.reproduction.nets import WAYS, ForwardAndGradient, factorial_nets, free_string_net, string_nets
from equilibria.training import train

NAMES = (
    "trajectories",
    "more_iterations",
    "interventions",
    "per_instance",
    "kernels",
    "metrics",
    "by_difficulty",
    "interventions_by_difficulty",
    "convergence_vs_pi",
    "implicit_gradients",
)
STRING_CATEGORIES = (*WAYS, Category.MIXED, Category.RANDOM_DEPTH, Category.PENALTY, Category.LOCAL)


def test_figures_share_their_nets_and_what_is_measured_of_them():
    scale = SCALES["laptop"]
    plans = {name: FIGURES[name].plan(scale) for name in NAMES}
    known = {net.id for net in string_nets(scale, *STRING_CATEGORIES)}
    varied, of_the_paper = (
        factorial_nets(scale),
        (ForwardAndGradient.PLAIN_BACKPROP, ForwardAndGradient.ANDERSON_IMPLICIT),
    )
    assert {net.id for net in varied if net.category in of_the_paper} <= known
    known |= {net.id for net in varied}
    asked = {step.net.id for plan in plans.values() for step in plan}
    assert asked - known == {free_string_net(scale).id}

    def blocks(*names):
        return {(step.net.id, step.measure.id) for name in names for step in plans[name]}

    assert blocks("kernels") <= blocks("by_difficulty")
    assert blocks("interventions", "per_instance", "convergence_vs_pi") <= blocks("interventions_by_difficulty")


def test_every_figure_measures_draws_and_judges(tmp_path):
    """With nets that have learned nothing, each trained once."""
    scale, blocks, runs = SCALES["smoke"], {}, {}
    for name in NAMES:
        figure = FIGURES[name]
        plan = figure.plan(scale)
        for step in plan:
            recipe = step.net.recipe
            if recipe.id not in runs:
                runs[recipe.id] = train(recipe, tmp_path / recipe.id)
            if (recipe.id, step.measure.id) not in blocks:
                blocks[recipe.id, step.measure.id] = measure_block(runs[recipe.id].folder, step)
        rows = json.loads(json.dumps(add_net_columns(plan, blocks.values()), allow_nan=False))
        drawn = figure.draw(rows)
        drawn.set_dpi(40)
        canvas = FigureCanvasAgg(drawn)
        canvas.draw()
        assert np.ptp(np.asarray(canvas.buffer_rgba())) > 0  # not an empty page
        claims = figure.claims(rows)
        assert claims
        assert all(claim.statement and claim.measured for claim in claims)
        points = figure.points(rows)
        if points is not None:
            assert {point["net"] for point in points.points} <= set(runs)
            assert all(math.isfinite(point["x"]) and math.isfinite(point["y"]) for point in points.points)
