"""A recipe can be written down, read back, changed, and told from every other."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from equilibria import Anderson, Budget, Implicit, Picard
from equilibria.core.loop import Solver
from equilibria.nets import ConvNet, DenseNet
from equilibria.tasks import Mazes, PrefixSum
from equilibria.training import RECIPES, AlignmentPenalty, Evaluation, Mixed, Optim, Pretraining, Progressive, Recipe
from equilibria.training.recipe import KINDS

RICH = Recipe(
    task=Mazes("percolation", loops=0.2),
    net=ConvNet(16, injection="concat", weight_norm=True),
    gradient=Implicit(solver=Anderson(memory=3), budget=Budget(10), scale=0.8),
    start=Mixed(share=0.25),
    extras=(Progressive(0.3), AlignmentPenalty(weight=2.0)),
    pretraining=Pretraining(steps=10),
    evaluation=Evaluation(at=((9, 50), (13, 100))),
    select="best",
)


@pytest.mark.parametrize("recipe", [*RECIPES.values(), RICH, Recipe()], ids=lambda recipe: recipe.name or "own")
def test_it_survives_being_written_down(recipe):
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.id == recipe.id


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_registered_part_survives_with_its_defaults(kind):
    field = "extras" if kind.__name__ == "Extra" else kind.__name__.lower()
    for name, member in KINDS[kind].items():
        changed = Recipe().override({field: [name] if field == "extras" else name})
        part = getattr(changed, field)
        assert (part[0] if field == "extras" else part) == member()
        assert Recipe.from_json(changed.to_json()) == changed


def test_the_id_is_the_content():
    assert replace(RICH, name="another", source="elsewhere").id == RICH.id
    changes = [
        {"seed": 1},
        {"optim.lr": 2e-3},
        {"net.width": 24},
        {"task.loops": 0.3},
        {"extras.0.share": 0.5},
        {"gradient.budget.steps": 11},
        {"extras": []},
        {"pretraining": None},
    ]
    ids = {RICH.override(change).id for change in changes}
    assert len(ids | {RICH.id}) == len(changes) + 1


def test_a_whole_number_where_a_float_is_meant_changes_nothing(tmp_path):
    ints, floats = Recipe(tol=0, optim=Optim(clip=1, lr=1)), Recipe(tol=0.0, optim=Optim(clip=1.0, lr=1.0))
    assert ints.id == floats.id == Recipe.from_json(ints.to_json()).id
    assert ints.data() == floats.data()


def test_changes_are_judged_together():
    assert Recipe().override({"select": "best", "evaluation.at": [[8, 5]]}).select == "best"
    longer = Recipe().override({"pretraining": {"steps": 1500}, "optim.steps": 3000})
    assert longer.pretraining == Pretraining(steps=1500)
    nested = {"gradient": "implicit", "gradient.solver": "anderson", "gradient.solver.memory": 3}
    assert Recipe().override(nested).gradient == Implicit(solver=Anderson(memory=3))
    mazes = Recipe(evaluation=Evaluation(at=((64, 9),))).override({"task": "mazes", "evaluation.at": [[9, 50]]})
    assert mazes.evaluation.at == ((9, 50),)


def test_the_id_is_the_same_in_another_process():
    script = "from equilibria.training import RECIPES; print(RECIPES['mazes/fast'].id)"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert other.strip() == RECIPES["mazes/fast"].id


def test_overrides_replace_a_part_before_they_set_its_fields():
    changed = Recipe().override({"solver.memory": 3, "solver": "anderson", "optim.batch": 7})
    assert changed.solver == Anderson(memory=3)
    assert changed.optim.batch == 7
    assert changed.net == Recipe().net
    assert Recipe().override({"solver": Picard(0.3)}).solver == Picard(0.3)
    assert Recipe().override({}) == Recipe()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optim.lrr": 1}, r"optim.lrr is not a field of a recipe; did you mean lr"),
        ({"optm.lr": 1}, r"optm is not a field of a recipe; did you mean optim"),
        ({"optim.lr": "fast"}, r"optim.lr must be a number, got 'fast'"),
        ({"optim.steps": 0}, r"optim: steps must be an integer >= 1, got 0"),
        ({"optim.steps": True}, r"optim.steps must be an integer, got True"),
        ({"net.norm": "batch"}, r"net.norm must be one of 'none', 'group', .*, got 'batch'"),
        ({"net": "conf"}, r"net cannot be 'conf'; did you mean conv"),
        ({"solver": 3}, r"solver must be the name of one of picard, anderson, broyden, got 3"),
        ({"net.width.x": 3}, r"net.width is 32 and has no fields"),
        ({"extras.0.share": 3}, r"extras.0 is not a field of a recipe; it is empty"),
        ({"depth": {"kind": "uniform", "low": 9, "high": 3}}, r"depth: high must be an integer >= 9, got 3"),
        ({"evaluation.at": [[0, 5]]}, r"PrefixSum has no difficulty 0"),
        ({"evaluation.at": [[8, 0]]}, r"steps of an evaluation must be an integer >= 1"),
        ({"select": "best"}, r"select 'best' needs evaluations"),
        ({"select": "alignment", "evaluation.at": [[64, 5]]}, r"needs evaluations at a difficulty of training"),
        ({"select": "alignment", "evaluation.at": [[32, 5]]}, r"where AA counts; set evaluation.at"),
        (
            {"task": "edge_copy", "net": "graph", "select": "alignment", "evaluation.at": [[10, 5], [15, 5]]},
            r"this task scores errors",
        ),
        ({"evaluation.finally_at": [[8, 5, 0, 0]]}, r"examples of an evaluation must be an integer >= 1, got 0"),
        ({"evaluation.finally_at": [[8, 5, 5, 20]]}, r"20 of 5 examples cannot get an AA score"),
        ({"evaluation.tol": -1.0}, r"evaluation: tol must be >= 0"),
        ({"tol": -1.0}, r"tol must be >= 0"),
        ({"optim.drops": [5.0]}, r"drops must be fractions of the training"),
        ({"task.train_difficulties": []}, r"train_difficulties is empty"),
        ({"start": {"kind": "normal", "scale": float("nan")}}, r"scale must be > 0 and finite, got nan"),
        ({"pretraining": {"steps": 1000}}, r"pretraining.steps = 1000 must be below optim.steps = 1000"),
        ({"pretraining": {"steps": 10, "last": 0}}, r"pretraining: last must be an integer >= 1, got 0"),
        ({"task": "prefix_sum", "task.length": 3}, r"task.length is not a field"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes, words):
    with pytest.raises(ValueError, match=words):
        Recipe().override(changes)


def test_a_file_with_a_mistake_is_named(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"task": {"kind": "prefix_sum"}, "optin": {}}))
    with pytest.raises(ValueError, match=r"mine.json: optin is not a field; did you mean optim"):
        Recipe.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"mine.json: a recipe in a file must name its task and net"):
        Recipe.load(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"mine.json is damaged: it is not valid JSON"):
        Recipe.load(path)


def test_a_part_that_nobody_could_read_back_is_not_written():
    @dataclass(frozen=True)
    class Mine(Solver):
        def start(self, z):
            return None

        def propose(self, z, fz, memory):
            return fz, None

    with pytest.raises(TypeError, match="cannot describe a Mine"):
        Recipe(solver=Mine()).to_json()


def test_a_recipe_whose_parts_do_not_fit_says_so_when_it_is_built():
    with pytest.raises(ValueError, match="DenseNet needs inputs of layout vector"):
        Recipe(task=PrefixSum(), net=DenseNet()).build()
    with pytest.raises(ValueError, match="use start projected"):
        Recipe(net=ConvNet(injection="none")).build()
    with pytest.raises(ValueError, match="use start zeros"):
        Recipe(optim=Optim()).override({"task": "matrix_inversion", "net": "matrix", "start": "projected"}).build()
