"""The figures of mazes and of the smaller tasks: claims on rows whose truth is known, and the measures behind them."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from judging import verdicts
from matplotlib.backends.backend_agg import FigureCanvasAgg

from equilibria.core.budget import Budget
from equilibria.reproduction import FIGURES, SCALES, Category
from equilibria.reproduction.engine.store import Block, add_net_columns
from equilibria.reproduction.figures._error_by_alignment import ErrorByAlignment
from equilibria.reproduction.figures.study3_choosing_without_labels import expected_accuracy
from equilibria.reproduction.maze_nets import MAZE_CATEGORIES, maze_recipe
from equilibria.reproduction.measures.attacked import Stress
from equilibria.reproduction.measures.common import best_steps, instances, split
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.measures.two_solvers import TwoSolvers
from equilibria.tasks import PrefixSum

SMOKE = SCALES["smoke"]


SEEDS = (0, 1, 2)


def maze_rows(learned: Any = 1.0, **scores: Any):
    """A row per category, seed and size; the score of categories that are not named is 0, except at the training size.

    A score may be given for each seed.
    """
    return [
        {
            "net": f"{category}-{seed}",
            "family": category,
            "category": category,
            "difficulty": size,
            "score": of_seeds[seed] if size > 9 else learned,
            "examples": 200,
            "alignment": 0.9,
            "converged": 200,
            "cycling": 0,
        }
        for category in MAZE_CATEGORIES
        for of_seeds in [scores.get(category, 0.0)]
        for of_seeds in [of_seeds if isinstance(of_seeds, tuple) else (of_seeds,) * len(SEEDS)]
        for seed in SEEDS
        for size in (9, 13, 25, 31, 59)
    ]


TIED = dict.fromkeys(("unroll_deep", "unroll_deep_weight_norm", "mixed_random_depth", "progressive", "implicit"), 0.9)


def test_only_tied_and_injected_nets_generalise():
    others = {"feedforward": 0.5, "feedforward_injected": 0.5, "no_injection": 0.5}
    assert verdicts("ood_mazes", maze_rows(**TIED)) == ["holds"] * 8
    assert verdicts("ood_mazes", maze_rows(**others)) == ["does not hold"] * 8
    assert verdicts("ood_mazes", maze_rows(learned=0.9, **TIED)) == ["inconclusive"] * 8


def test_a_claim_about_maze_nets_holds_for_every_seed():
    assert verdicts("ood_mazes", maze_rows(**TIED | {"unroll_deep": (0.9, 0.7, 0.6)}))[0] == "holds"
    assert verdicts("ood_mazes", maze_rows(**TIED | {"unroll_deep": (1.0, 1.0, 0.5)}))[0] == "inconclusive"
    assert verdicts("ood_mazes", maze_rows(**TIED | {"unroll_deep": (0.1, 0.2, 0.3)}))[0] == "does not hold"
    rows = maze_rows(**TIED | {"unroll_deep": (0.9, 0.9, 0.0)})
    unlearned = [row | {"score": 0.5} if row["net"] == "unroll_deep-2" else row for row in rows]
    assert verdicts("ood_mazes", unlearned)[0] == "holds"  # a net that does not fit its training data does not count


def test_a_net_chosen_by_alignment_is_compared_with_one_chosen_at_the_training_size():
    def rows(alignment_of):
        return [
            row | {"alignment": alignment_of(seed, row["category"])}
            for seed in SEEDS
            for row in maze_rows(**{one: i / 20 for i, one in enumerate(MAZE_CATEGORIES)})
            if row["net"].endswith(str(seed))
        ]

    def right(seed, category):
        return MAZE_CATEGORIES.index(category) / 20

    assert verdicts("choosing_without_labels", rows(right)) == ["holds"]  # as good as an oracle
    assert verdicts("choosing_without_labels", rows(lambda seed, category: -right(seed, category))) == ["does not hold"]


def test_the_expected_accuracy_of_a_choice_is_that_of_all_sets():
    rng = np.random.default_rng(0)
    rule, accuracy = rng.integers(0, 4, 7).astype(float), rng.random(7)  # with ties

    def of(chosen):
        best = [i for i in chosen if rule[i] == max(rule[j] for j in chosen)]
        return np.mean([accuracy[i] for i in best])

    for among in (1, 2, 3, 7):
        every = np.mean([of(chosen) for chosen in combinations(range(7), among)])
        assert expected_accuracy(rule, accuracy, among) == pytest.approx(every)


def stress_rows(independent, dependent, examples=500):
    return [
        {
            "task": task,
            "category": f"path_{kind}",
            "steps": 500,
            "alignment": 0.9,
            "score": 1.0,
            "attacked_alignment": 0.9 if kind == "independent" else 0.5,
            "attacked_diverged": 0,
            "alignment_each": [0.9] * examples,
            "guessed_alignment_each": [0.9] * examples,
            "attacked_alignment_each": [0.9 if kind == "independent" else 0.5] * examples,
            "attacked_score": independent if kind == "independent" else dependent,
            "examples": examples,
        }
        for task in ("Mazes", "PrefixSum")
        for kind in ("independent", "dependent")
    ]


def test_attacks_are_judged_by_the_remaining_accuracy():
    def of_answers(*about, **more):
        return verdicts("stress_test", stress_rows(*about, **more))[::2]

    assert of_answers(1.0, 0.0) == ["holds"] * 4
    assert of_answers(0.5, 0.5) == ["does not hold"] * 4
    assert of_answers(0.95, 0.05) == ["inconclusive"] * 4
    assert of_answers(1.0, 0.0, examples=3) == ["inconclusive"] * 4


def test_attacks_are_judged_by_their_limits():
    def of_ends(alignment, attacked):
        ends = {"alignment_each": alignment, "guessed_alignment_each": alignment, "attacked_alignment_each": attacked}
        return verdicts("stress_test", [row | ends for row in stress_rows(1.0, 0.0)])[1::2]

    assert of_ends([0.995] * 20, [0.99] * 20) == ["holds", "does not hold"] * 2
    assert of_ends([0.99] * 20, [0.5] * 20) == ["does not hold", "holds"] * 2
    assert of_ends([0.99] * 20, [0.99] * 19 + [0.5]) == ["inconclusive"] * 4  # one example: it may be chance
    assert of_ends([0.99] * 20, [None] * 20) == ["inconclusive"] * 4


def test_an_attack_has_to_be_worse_than_the_worst_first_guess():
    guessed = {"guessed_alignment_each": [0.5] * 500}
    assert verdicts("stress_test", [row | guessed for row in stress_rows(1.0, 0.0)])[3::4] == ["does not hold"] * 2


def convergence_rows(solved, alignment, residual, learned=1.0, plain=0.5):
    rows = [
        {
            "net": f"{category}-{seed}",
            "category": category,
            "solver": "broyden",
            "difficulty": size,
            "score": solved if size > 9 else learned,
            "examples": 100,
            "alignment": alignment,
            "alignment_each": [alignment] * 20,
            "last_step": residual,
            "last_step_each": [residual] * 100,
        }
        for category in ("phantom", "implicit")
        for seed in SEEDS
        for size in (9, 25)
    ]
    return rows + [row | {"solver": "picard", "score": plain} for row in rows if row["difficulty"] == 25]


def test_convergence_in_training_is_not_needed():
    assert verdicts("training_convergence", convergence_rows(1.0, 0.99, 5.0)) == ["holds"] * 7
    assert verdicts("training_convergence", convergence_rows(0.2, 0.5, 0.0)) == ["does not hold"] * 7
    assert verdicts("training_convergence", convergence_rows(1.0, 0.99, 5.0, learned=0.5)) == ["inconclusive"] * 7


def solver_rows(score, moving, size, apart=0.1):
    row = {"difficulty": 9, "examples": 100, "unsettled": moving, "cycle_sizes": [size] * moving, "broyden_score": 1.0}
    row |= {"apart": apart, "picard_score": score, "measure": "TwoSolvers"}
    harder = [row | {"difficulty": harder, "run": 0} for harder in (13, 25)]
    of_one = [row | {"run": run} for run in range(10)] + harder
    return [row | {"category": category} for category in ("mixed_random_depth", "unroll_deep") for row in of_one]


def test_solvers_with_different_limits_and_the_same_answers():
    *of_the_paper, contrast = verdicts("solver_residuals", solver_rows(1.0, 40, 0.01))
    assert of_the_paper == ["holds"] * 8
    assert contrast == "does not hold"
    assert verdicts("solver_residuals", solver_rows(0.5, 0, 0.01, apart=1e-6))[:3] == ["does not hold"] * 3
    assert verdicts("solver_residuals", solver_rows(1.0, 0, 0.01))[2:5] == ["does not hold"] * 3
    assert verdicts("solver_residuals", solver_rows(1.0, 40, 0.3))[5:8] == ["does not hold"] * 3
    nets = solver_rows(1.0, 40, 0.01)[:12] + solver_rows(0.5, 40, 0.01)[12:]
    assert verdicts("solver_residuals", nets) == ["holds"] * 9  # each net by its own rows


def test_whether_iteration_settles_is_judged_on_the_most_mazes():
    rows = solver_rows(1.0, 40, 0.01)
    many = {
        "category": "mixed_random_depth",
        "measure": "Settling",
        "examples": 2500,
        "unsettled": 1,
        "cycle_sizes": [0.01],
    }
    found = verdicts("solver_residuals", [*rows, *(many | {"difficulty": size} for size in (13, 25))])
    assert found[2:5] == ["holds", "does not hold", "does not hold"]
    assert found[5:8] == ["holds", "inconclusive", "inconclusive"]


@pytest.mark.parametrize("name", ["blurry_mnist", "matrix_inversion", "edge_copy"])
def test_error_falls_with_alignment(name):
    figure = FIGURES[name]
    assert isinstance(figure, ErrorByAlignment)

    learned = 1.0 if name == "blurry_mnist" else 0.0

    def rows(sign, training=learned):
        return [
            {
                "category": ("unroll", "solver", "implicit")[i % 3],
                "label": f"net {i}",
                "net": str(i),
                "difficulty": difficulty,
                "alignment": 0.3 + 0.03 * i,
                "centred": -0.03 * i,
                "aggregate": "add",
                "score": 0.5 + sign * 0.01 * i if budget == "large" else training,
                "constant": 0.6,
                "budget": budget,
                "steps": 8,
            }
            for i in range(18)
            for difficulty in figure.difficulties
            for budget in ("large", "training")
        ]

    better = 1 if name == "blurry_mnist" else -1
    assert verdicts(name, rows(better))[:2] == ["holds", "does not hold"]  # centred AA goes the other way here
    assert verdicts(name, rows(-better))[:2] == ["does not hold", "holds"]
    assert verdicts(name, rows(better, training=0.6))[:2] == ["inconclusive"] * 2  # no better than a constant
    FigureCanvasAgg(figure.draw(rows(better))).draw()
    points = figure.points(rows(better))
    assert [point["x"] for point in points.points] == pytest.approx([0.3 + 0.03 * i for i in range(18)])


def test_nets_that_diverge_have_the_largest_error():
    rows = [
        {"category": "unroll", "label": f"net {i}", "net": str(i), "aggregate": "add", "difficulty": difficulty}
        | {"budget": "large", "constant": 0.3, "alignment": 0.99 - 0.01 * i, "centred": 0.5, "score": 1e-3 * i}
        | ({"alignment": None, "centred": None, "score": None, "diverged": 5} if i > 9 else {"diverged": 0})
        for i in range(12)
        for difficulty in (10, 15)
    ]
    first, *_ = FIGURES["edge_copy"].claims(rows)
    assert first.value == pytest.approx(-1.0)
    FigureCanvasAgg(FIGURES["edge_copy"].draw(rows)).draw()
    points = FIGURES["edge_copy"].points(rows)
    assert points is not None
    assert len(points.points) == 10


def test_alignments_that_differ_by_rounding_are_inconclusive():
    rows = [
        {"category": "unroll", "label": f"net {i}", "net": str(i), "difficulty": difficulty, "budget": "large"}
        | {"alignment": 1 - 1e-7 * i, "centred": 1.0, "score": 0.1 + i, "constant": 0.6}
        for i in range(18)
        for difficulty in (0.5, 0.1)
    ]
    assert verdicts("matrix_inversion", rows)[:2] == ["inconclusive"] * 2


def test_whether_digits_are_learned_is_judged_by_the_steps_of_the_training():
    def verdict(learned, after):
        rows = [
            {
                "category": "unroll",
                "label": f"net {i}",
                "net": str(i),
                "difficulty": 2.0,
                "alignment": 1.0,
                "centred": 1.0,
            }
            | {"constant": 0.1, "budget": budget, "score": score, "steps": 8}
            for i in range(18)
            for budget, score in (("training", learned), ("large", after))
        ]
        return verdicts("blurry_mnist", rows + [row | {"difficulty": 5.0} for row in rows if row["budget"] == "large"])[
            2
        ]

    assert verdict(0.97, 0.3) == "holds"
    assert verdict(0.9, 0.97) == "does not hold"


@pytest.fixture(scope="module")
def untrained():
    recipe = maze_recipe(SMOKE, Category.MIXED_RANDOM_DEPTH)
    return recipe, recipe.build()


def test_every_figure_of_mazes_draws_what_it_measures():
    for name in ("ood_mazes", "stress_test", "training_convergence", "solver_residuals", "choosing_without_labels"):
        figure, blocks = FIGURES[name], {}
        plan = figure.plan(SMOKE)
        for net, measure in plan:
            rows = measure.rows(net.recipe.build(), net.recipe)
            blocks[net.id, measure.id] = Block(net.id, "", measure.id, measure.settings, rows)
        rows = add_net_columns(plan, blocks.values())
        FigureCanvasAgg(figure.draw(rows)).draw()
        assert figure.claims(rows)


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


def test_unknown_categories_of_mazes_are_refused():
    with pytest.raises(ValueError, match=r"no maze nets of category .*unroll_shallow"):
        maze_recipe(SMOKE, Category.PENALTY)


@pytest.mark.parametrize("category", [Category.FEEDFORWARD, Category.FEEDFORWARD_INJECTED])
def test_feedforward_nets_are_applied_once_wherever_they_are_evaluated(category):
    for scale in SCALES.values():
        asked = maze_recipe(scale, category).evaluation
        assert [steps for _, steps, *_ in (*asked.at, *asked.finally_at)] == [1] * (len(asked.at) + 1)
