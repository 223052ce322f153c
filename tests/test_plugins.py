"""Tasks and nets of one's own: named modules, installed plugins, what recipes and models need, and the skeleton."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equilibria import load, plugins
from equilibria.io.hub import save_pretrained
from equilibria.io.manifest import seal
from equilibria.tasks import TASKS
from equilibria.training import RECIPES, Recipe, Run

MODULE = '''
from dataclasses import dataclass
from equilibria.tasks import TASKS, PrefixSum

@dataclass(frozen=True)
class PrefixMax(PrefixSum):
    """Whether there has been a 1 so far."""

    def sample(self, n, difficulty, rng):
        batch = super().sample(n, difficulty, rng)
        return batch._replace(y=(batch.x[:, 0] > 0).long().cummax(1).values)

TASKS["prefix_max"] = PrefixMax
'''
TRAIN = [
    *("train", "prefix_sum/quick", "--task", "prefix_max", "--optim.steps", "3", "--optim.batch", "4"),
    *("--net.width", "8", "--evaluation.at", "6", "4", "--evaluation.finally-at", "6", "4", "12", "12"),
]
MISSING = "needs the task 'prefix_max' of the module own_task; pass --import own_task"


def shell(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess:
    """Run a command in a process of its own, which has imported nothing yet."""
    command = [sys.executable, "-m", "equilibria", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | variables)


SEVERAL = """
import contextlib, io, json, sys
from equilibria.cli import main
results = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def in_one_process(commands: list[list[str]], cwd: Path) -> list[tuple[int, str, str]]:
    """The exit code, output and errors of several commands; importing torch for each would take long."""
    command = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert finished.returncode == 0, finished.stderr
    return [tuple(one) for one in json.loads(finished.stdout)]


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A folder with a module that registers a task, and a run of it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_task.py").write_text(MODULE)
    finished = shell(*TRAIN, "--import", "own_task", "--out", "runs/first", cwd=folder)
    assert finished.returncode == 0, finished.stderr
    return folder


def test_the_hint_after_training_is_a_command_that_works(own):
    again = shell(*TRAIN, "--import", "own_task", "--final", "quick", "--out", "runs/hint", cwd=own)
    _, found, command = again.stdout.partition("for the recipe's whole measurement: equilibria ")
    assert found
    assert shell(*command.split(), cwd=own).returncode == 0


def test_every_command_works_on_a_run_of_ones_own_task(own):
    few = ["--examples", "4"]
    commands = [
        ["evaluate", "runs/first", "--check"],
        ["measure", "runs", *few, "--restarts", "2"],
        ["diagnose", "runs/first", *few, "--restarts", "2", "--no-attack"],
        ["train", "runs/first"],
        ["list", "tasks"],
    ]
    results = in_one_process([[*one, "--import", "own_task"] for one in commands], own)
    assert [code for code, _, _ in results] == [0] * len(commands), results
    assert "prefix_max" in results[-1][1]
    assert "(from own_task)" in " ".join(results[-1][1].split())
    finished = shell("evaluate", "runs/first", "--check", cwd=own, EQUILIBRIA_IMPORT="own_task")
    assert finished.returncode == 0, finished.stderr


def test_what_is_missing_is_asked_for_by_name(own):
    commands = [["evaluate", "runs/first"], ["train", "runs/first"], ["diagnose", "runs/first"]]
    for code, _, errors in in_one_process(commands, own):
        assert code == 1
        assert MISSING in errors
        assert errors.count("\n") == 1
    assert "finished" in shell("list", "runs", cwd=own).stdout, "listing runs needs no plugin"
    for module, words in (("no_such", "there is no module no_such"), ("own_task.py", "such as own_task")):
        finished = shell("list", "tasks", "--import", module, cwd=own)
        assert finished.returncode == 1
        assert words in finished.stderr


def test_a_file_never_decides_what_is_imported(own, tmp_path):
    """A downloaded folder names a module that exists and would leave a trace if it were imported."""
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n{MODULE}")
    for name in ("recipe.json", "config.json"):
        data = json.loads((own / "runs" / "first" / name).read_text())
        data["needs"][0]["module"] = "trap"
        (tmp_path / name).write_text(json.dumps(data))
    for name in ("model.safetensors", "summary.json"):
        (tmp_path / name).write_bytes((own / "runs" / "first" / name).read_bytes())
    seal(tmp_path)
    for code, _, errors in in_one_process(
        [[one, "."] for one in ("evaluate", "diagnose", "measure", "train")], tmp_path
    ):
        assert code == 1
        assert "pass --import trap" in errors
    with pytest.raises(plugins.MissingPlugin, match="pass --import trap"):
        load(tmp_path)
    assert not (tmp_path / "sprung").exists()
    assert shell("evaluate", ".", "--import", "trap", cwd=tmp_path).returncode == 0, "the user may"
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "needs",
    [
        "text",
        [1],
        [{"group": "tasks", "name": "prefix_max", "module": "a; rm -rf /"}],
        [{"group": "tasks", "name": "prefix_max", "module": "x" * 10_000}],
        [{"group": "tasks", "name": "prefix_max", "module": ["m"]}],
        [{"group": "tasks"}] * 10_000,
    ],
)
def test_malformed_needs_are_ignored(needs):
    data = RECIPES["prefix_sum/quick"].data() | {"task": "prefix_max", "needs": needs}
    with pytest.raises(ValueError, match="prefix_max") as error:
        Recipe.from_data(data)
    assert "rm -rf" not in str(error.value)
    assert len(str(error.value)) < 500


def test_workers_of_a_sweep_import_the_same_modules(own):
    base = [*("sweep", "runs/first", "--grid", "seed=1,2", "--import", "own_task", "--json"), "--out", "swept"]
    finished = shell(*base, "--workers", "1", cwd=own)
    assert finished.returncode == 0, finished.stderr
    assert [row["state"] for row in json.loads(finished.stdout)] == ["finished", "finished"]


def test_workers_on_ray_import_the_same_modules(own):
    finished = shell(
        *("sweep", "runs/first", "--grid", "seed=3", "--import", "own_task", "--json"),
        *("--out", "on_ray", "--on", "ray", "--cpus", "1"),
        cwd=own,
    )
    assert finished.returncode == 0, finished.stderr
    assert [row["state"] for row in json.loads(finished.stdout)] == ["finished"]


def test_recipes_of_the_library_need_nothing_and_keep_their_ids():
    for recipe in RECIPES.values():
        assert recipe.needs == []
        assert "needs" not in recipe.data()
    for path in sorted((Path(__file__).parent.parent / "results").glob("*/*/seed-0")):
        run = Run(path)
        assert run.recipe.id == run.summary["id"]


def test_needs_are_written_into_recipe_model_and_card(own, tmp_path):
    expected = [{"group": "tasks", "name": "prefix_max", "module": "own_task"}]
    for name in ("recipe.json", "config.json"):
        assert json.loads((own / "runs" / "first" / name).read_text())["needs"] == expected
    script = "import own_task\nimport equilibria\nfrom equilibria.io.hub import save_pretrained\n"
    script += "save_pretrained(equilibria.load('runs/first'), 'card')"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=own)
    card = (own / "card" / "README.md").read_text()
    assert "\nimport own_task\n" in card
    assert "**Needs** the task 'prefix_max' of the module own_task" in card


def test_a_card_of_a_model_of_the_library_needs_nothing(tmp_path):
    save_pretrained(RECIPES["edge_copy/fast"].build(), tmp_path)
    assert "Needs" not in (tmp_path / "README.md").read_text()
    assert "needs" not in json.loads((tmp_path / "config.json").read_text())


@pytest.fixture
def installed(tmp_path) -> Path:
    """A folder of installed packages, as pip writes it."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "own_plugin.py").write_text(MODULE.replace('TASKS["prefix_max"] = PrefixMax', "BROKEN = 3"))
    info = folder / "own_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[equilibria.tasks]\nprefix_max = own_plugin:PrefixMax\nmazes = own_plugin:PrefixMax\n"
        "broken = own_plugin:BROKEN\nabsent = own_plugin:NONE\n"
    )
    return folder


def test_installed_plugins_need_no_import(installed, tmp_path):
    path = str(installed)
    listed = shell("list", "plugins", "--json", cwd=tmp_path, PYTHONPATH=path)
    rows = json.loads(listed.stdout)
    assert {"group": "tasks", "name": "prefix_max", "package": "own-plugin"} in rows
    finished = shell(*TRAIN, "--out", "run", cwd=tmp_path, PYTHONPATH=path)
    assert finished.returncode == 0, finished.stderr
    assert "task 'mazes': the package has one of this name; the plugin's is not used" in finished.stderr
    assert "task 'broken': own_plugin:BROKEN is not a Task" in finished.stderr
    assert "task 'absent': AttributeError" in finished.stderr
    need = {"group": "tasks", "name": "prefix_max", "module": "own_plugin", "package": "own-plugin"}
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["needs"] == [need]
    assert shell("evaluate", "run", "--check", cwd=tmp_path, PYTHONPATH=path).returncode == 0
    missing = shell("evaluate", "run", cwd=tmp_path, PYTHONPATH="")
    assert missing.returncode == 1
    assert "needs the task 'prefix_max' of the plugin own-plugin; install that package" in missing.stderr


def test_a_kind_that_a_script_registers(monkeypatch):
    mazes = TASKS["mazes"]
    own = type("OwnMazes", (mazes,), {"__module__": "__main__", "__doc__": "Own."})
    recipe = Recipe(task=own(), net=RECIPES["mazes/fast"].net)
    with pytest.raises(TypeError, match=r'register its kind: TASKS\["a_name"\] = OwnMazes'):
        recipe.data()
    monkeypatch.setitem(TASKS, "own_mazes", own)
    (need,) = recipe.needs
    assert (need.name, need.module) == ("own_mazes", "")
    data = recipe.data()
    monkeypatch.delitem(TASKS, "own_mazes")
    with pytest.raises(plugins.MissingPlugin, match="which a script registered"):
        Recipe.from_data(data)


def test_the_skeleton_of_a_task_works(tmp_path):
    assert shell("new", "task", "first_one", cwd=tmp_path).returncode == 0
    folder = tmp_path / "first_one"
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
    commands = [
        ["train", "first_one/quick", "--optim.steps", "20", "--out", "runs/first"],
        ["evaluate", "runs/first", "--check"],
        ["diagnose", "runs/first", "--examples", "4", "--restarts", "2", "--no-attack"],
        ["explore", "runs", "--export", "page", "--steps", "20"],
    ]
    results = in_one_process([[*one, "--import", "first_one"] for one in commands], folder)
    assert [code for code, _, _ in results] == [0] * len(commands), results
    assert (folder / "page" / "index.html").is_file()
    assert "runs/first" in shell("list", "runs", cwd=folder).stdout
    again = shell("new", "task", "first_one", cwd=tmp_path)
    assert again.returncode == 1
    assert "exists and is not empty" in again.stderr
