"""The paper's own settings can be trained, and its figures can be selected."""

from dataclasses import replace

import pytest

from equilibria.reproduction import FIGURES, SCALES, find_figures
from equilibria.tasks import Mazes
from equilibria.training import Recipe, Trainer


def _kind(recipe: Recipe) -> tuple:
    parts = (recipe.task, recipe.solver, recipe.gradient, recipe.start, *recipe.extras)
    return (recipe.net, recipe.pretraining is None, *(type(part) for part in parts))


def test_every_kind_of_net_of_the_paper_takes_a_training_step():
    """With two examples, and mazes of 5x5. Nets with a pretraining also take a step of what follows it."""
    scale = SCALES["paper"]
    recipes = [step.net.recipe for figure in FIGURES.values() for step in figure.plan(scale)]
    kinds = {_kind(recipe): recipe for recipe in recipes}
    for recipe in kinds.values():
        assert Recipe.from_json(recipe.to_json()) == recipe
        task = replace(recipe.task, train_difficulties=(5,)) if isinstance(recipe.task, Mazes) else recipe.task
        small = replace(recipe, task=task, optim=replace(recipe.optim, batch=2), pool=0)
        for one in {small.id: small, (after := replace(small, pretraining=None)).id: after}.values():
            assert Trainer(one).step().step == 1


def test_figures_are_found_by_name_and_by_place():
    def names(*words: str) -> list[str]:
        return [figure.name for figure in find_figures(words)]

    assert names("figure2") == ["ood_mazes", "more_iterations"]
    assert names("table1", "Appendix G") == ["stress_test", "solver_residuals"]
    assert names("appendix_a", "kernels") == ["kernels", "metrics"]
    assert names(*FIGURES) == list(FIGURES)
    with pytest.raises(ValueError, match="there is no figure 'tabel1'; did you mean table1"):
        find_figures(["tabel1"])
