"""The figures of mazes: claims on rows whose truth is known."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from judging import verdicts
from matplotlib.backends.backend_agg import FigureCanvasAgg

from equilibria.reproduction import FIGURES, SCALES, Category
from equilibria.reproduction.engine.store import Block, add_net_columns
from equilibria.reproduction.figures.study3_choosing_without_labels import expected_accuracy
from equilibria.reproduction.maze_nets import MAZE_CATEGORIES, TIED, maze_nets, maze_recipe

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
            "seed": seed,
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


KINDS = tuple(category.value for category in TIED)
SOLVED = dict.fromkeys(KINDS, 0.9) | {"unroll_deep_group_norm": 0.7}


def test_only_tied_and_injected_nets_generalise():
    others = {"feedforward": 0.5, "feedforward_injected": 0.5, "no_injection": 0.5, "unroll_deep_group_norm": 0.5}
    assert verdicts("ood_mazes", maze_rows(**SOLVED)) == ["holds"] * 4
    assert verdicts("ood_mazes", maze_rows(**others)) == ["does not hold"] * 4
    assert verdicts("ood_mazes", maze_rows(learned=0.9, **SOLVED)) == ["inconclusive"] * 4


def test_nets_without_injection_are_also_judged_with_many_steps():
    rows = maze_rows(**SOLVED, no_injection=0.2)
    many = {
        "category": "no_injection",
        "budget": "large",
        "score": 0.0,
        "difficulty": 25,
        "steps": 400,
        "examples": 200,
    }
    claims = {claim.id: claim for claim in FIGURES["ood_mazes"].claims([*rows, many | {"net": "free", "seed": 0}])}
    assert claims["nets_without_injection_do_not_generalise"].verdict == "does not hold"
    assert claims["nets_without_injection_fail_with_many_steps"].verdict == "holds"


def test_families_of_nets_are_the_unit_of_generalisation_and_seeds_are_not():
    mixed = {kind: 0.9 if i % 2 else 0.1 for i, kind in enumerate(KINDS)}
    assert verdicts("ood_mazes", maze_rows(feedforward=0.5, **mixed))[0] == "inconclusive"
    assert verdicts("ood_mazes", maze_rows(**mixed))[0] == "holds"  # feedforward nets solve none
    few = [row for row in maze_rows(**SOLVED) if row["category"] in (*KINDS[:2], "feedforward")]
    assert verdicts("ood_mazes", few)[0] == "inconclusive"  # six nets of two kinds


def test_nets_that_repeat_the_training_of_others_are_of_their_family():
    nets = maze_nets(SCALES["laptop"], *MAZE_CATEGORIES)
    families = {category: {net.family for net in nets if net.category is category} for category in MAZE_CATEGORIES}
    assert families[Category.IMPLICIT] == families[Category.PHANTOM] == families[Category.DEEP]
    assert len(set.union(*families.values())) == len(MAZE_CATEGORIES) - 2


def test_a_claim_about_other_maze_nets_holds_for_every_net():
    def verdict(*scores):
        return verdicts("ood_mazes", maze_rows(no_injection=scores))[2]

    assert verdict(0.0, 0.0, 0.005) == "holds"
    assert verdict(0.0, 0.0, 0.5) == "inconclusive"
    assert verdict(0.2, 0.3, 0.5) == "does not hold"
    rows = maze_rows(no_injection=(0.0, 0.0, 0.5))
    unlearned = [row | {"score": 0.5} if row["net"] == "no_injection-2" else row for row in rows]
    assert verdicts("ood_mazes", unlearned)[2] == "holds"  # a net that does not fit its training data does not count


def test_group_norm_is_compared_within_seeds():
    def verdict(plain, normed):
        return verdicts("ood_mazes", maze_rows(unroll_deep=plain, unroll_deep_group_norm=normed))[3]

    assert verdict((0.3, 0.6, 0.9), (0.1, 0.4, 0.7)) == "holds"
    assert verdict((0.3, 0.6, 0.9), (0.5, 0.8, 1.0)) == "does not hold"
    assert verdict((0.3, 0.6, 0.9), (0.1, 0.4, 0.95)) == "inconclusive"


def test_without_a_pair_of_fitting_nets_group_norm_is_not_judged():
    rows = maze_rows(unroll_deep=0.9)
    unlearned = [row | {"score": 0.5} if row["category"] == "unroll_deep_group_norm" else row for row in rows]
    claim = FIGURES["ood_mazes"].claims(unlearned)[3]
    assert str(claim.verdict) == "inconclusive"
    assert claim.remark == "There is no seed with which both nets fit their training data."


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


def convergence_rows(solved, alignment, residual, learned=1.0, plain=0.5, categories=("phantom", "implicit")):
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
        for category in categories
        for seed in SEEDS
        for size in (9, 25)
    ]
    return rows + [row | {"solver": "picard", "score": plain} for row in rows if row["difficulty"] == 25]


def of_the_paper(rows):
    claims = FIGURES["training_convergence"].claims(rows)
    return [str(claim.verdict) for claim in claims if claim.of_the_paper]


def test_convergence_in_training_is_not_needed():
    assert of_the_paper(convergence_rows(1.0, 0.99, 5.0)) == ["holds"] * 7
    assert of_the_paper(convergence_rows(0.2, 0.5, 0.0)) == ["does not hold"] * 7
    assert of_the_paper(convergence_rows(1.0, 0.99, 5.0, learned=0.5)) == ["inconclusive"] * 7


def test_nets_of_our_own_are_judged_beside_those_of_the_paper():
    after_mixed = convergence_rows(1.0, 0.99, 5.0, categories=("phantom_after_mixed", "implicit_after_mixed"))
    claims = FIGURES["training_convergence"].claims([*convergence_rows(0.2, 0.5, 0.0), *after_mixed])
    assert of_the_paper([*convergence_rows(0.2, 0.5, 0.0), *after_mixed]) == ["does not hold"] * 7  # not diluted
    assert [claim.verdict for claim in claims if not claim.of_the_paper] == ["holds"] * 6


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


def test_every_figure_of_mazes_draws_what_it_measures():
    for name in ("ood_mazes", "stress_test", "training_convergence", "solver_residuals", "choosing_without_labels"):
        figure, blocks = FIGURES[name], {}
        plan = figure.plan(SMOKE)
        for net, measure in plan:
            rows = measure.rows(net.recipe.build(), net.recipe)
            blocks[net.id, measure.id] = Block(net.id, "", measure.id, measure.settings, rows)
        rows = add_net_columns(plan, blocks.values())
        FigureCanvasAgg(figure.draw(rows)).draw()
        claims = {claim.id: str(claim.verdict) for claim in figure.claims(rows)}
        assert claims
        assert not [id_ for id_, verdict in claims.items() if "generalise" in id_ and verdict == "holds"]


def test_unknown_categories_of_mazes_are_refused():
    with pytest.raises(ValueError, match=r"no maze nets of category .*unroll_shallow"):
        maze_recipe(SMOKE, Category.PENALTY)


@pytest.mark.parametrize("category", [Category.FEEDFORWARD, Category.FEEDFORWARD_INJECTED])
def test_feedforward_nets_are_applied_once_wherever_they_are_evaluated(category):
    for scale in SCALES.values():
        asked = maze_recipe(scale, category).evaluation
        assert [steps for _, steps, *_ in (*asked.at, *asked.finally_at)] == [1] * (len(asked.at) + 1)
