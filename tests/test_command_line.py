"""The command line as a whole: speed, help, pipes, folders, completion, and JSON that follows its schemas."""

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import equilibria
from equilibria.cli import main
from equilibria.cli.commands import COMMANDS, overview
from equilibria.cli.listing import CATALOGUE
from equilibria.training import RECIPES, Run, train
from equilibria.training.measurement import final_points, measure_final
from equilibria.training.recipes import default_final

SCHEMAS = json.loads((Path(__file__).parent.parent / "docs" / "schemas.json").read_text())
RESULTS = Path(__file__).parent.parent / "results"
SHIPPED = RESULTS / "edge_copy" / "fast" / "seed-0"
SHORT = RECIPES["edge_copy/fast"].override(
    {
        "optim.steps": 3,
        "optim.batch": 4,
        "net.width": 4,
        "evaluation.at": [[3, 4]],
        "evaluation.examples": 12,
        "evaluation.finally_at": [[3, 4, 30, 12], [4, 5, 30, 12]],
    }
)
MEASURE = """
import resource, runpy, sys
sys.argv = ["equilibria", *{arguments!r}]
try:
    runpy.run_module("equilibria", run_name="__main__")
except SystemExit as stopped:
    assert not stopped.code, stopped.code
used = resource.getrusage(resource.RUSAGE_SELF)
slow = [name for name in ("torch", "matplotlib", "scipy", "numpy") if name in sys.modules]
print(used.ru_utime + used.ru_stime, *slow, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "of" / "edges"
    for seed in (0, 1):
        train(replace(SHORT, seed=seed), folder / f"seed-{seed}", final="quick")
    return folder.parent


@pytest.mark.parametrize("arguments", [["--help"], [], ["list"], ["list", "nets"], ["list", "runs"], ["--version"]])
def test_help_and_list_are_quick_because_they_import_nothing_slow(arguments, tmp_path):
    """The limit is .3 s. This process measures itself, so that other work on the machine does not count."""
    script = MEASURE.format(arguments=arguments)
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    seconds, *slow = finished.stderr.splitlines()[-1].split()
    assert not slow
    assert float(seconds) < 0.6  # twice the limit, because processors slow down under load


def test_bare_equilibria_shows_every_command(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown == overview() + "\n"
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_sentence_of_its_help(name, capsys):
    command = COMMANDS[name]
    assert (inspect.getdoc(command.load()) or "").split("\n")[0] == command.summary
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert command.summary.split()[0] in shown
    assert "--import MODULE" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_the_help_of_train_shows_the_defaults_of_the_recipe(capsys):
    assert main(["train", "mazes/fast", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default: 3200)" in shown  # optim.steps
    assert main(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--optim.steps" not in shown, "without a recipe there are no defaults to show"
    assert "RECIPE" in shown


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"equilibria {equilibria.__version__}\n"


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    command = f"{sys.executable} -m equilibria list tasks | head -1; echo ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert finished.stderr == ""
    script = "import sys\nfrom equilibria.cli import main\nsys.exit(main(['list', 'recipes', '--json'] ))"
    pipe = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert pipe.stdout
    assert pipe.stderr
    pipe.stdout.close()  # nobody reads
    errors = pipe.stderr.read()
    pipe.stderr.close()
    assert pipe.wait() in (0, 141)
    assert errors == b""


def test_folders_expand_to_the_runs_below_them_and_paths_are_not_cut_off(runs, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it
    assert main(["evaluate", str(runs), "--check", "--json"]) == 0
    found = [Path(one["folder"]).name for one in json.loads(capsys.readouterr().out)]
    assert found == ["seed-0", "seed-1"]
    assert main(["list", "runs", "--folder", str(runs)]) == 0
    listed = capsys.readouterr().out
    assert all(str(runs / "edges" / name) in listed for name in found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_flags(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "grid" in script


@pytest.mark.parametrize(
    "line",
    [
        "attack NET --radius -1",
        "attack NET --radius nan",
        "attack NET --updates -1",
        "attack NET --guesses 0",
        "attack NET --through -1",
        "attack NET --steps -1",
        "attack NET --difficulty -3 --steps 3",
        "measure NET --at -3 3",
        "measure NET --at 3 -4",
        "measure NET --noise -1",
        "measure NET --tol -1",
        "measure NET --level 2",
        "evaluate NET --at -3 3",
        "evaluate NET --at 3 -4",
        "evaluate NET --examples -4",
        "evaluate module:model --data module:loader --steps -1",
        "evaluate module:model --data module:loader --unchanged -1",
        "diagnose NET --seconds nan",
        "diagnose NET --restarts 0",
        "diagnose NET --steps -1",
        "diagnose NET --trained-steps -1",
        "diagnose NET --difficulty -1",
        "explore NET --port 99999",
        "explore NET --memory nan",
        "explore NET --export site --seeds -1",
        "explore NET --export site --nets nothing",
        "train edge_copy/fast --save-every -1",
        "train edge_copy/fast --device abacus",
        "quickstart --seed -1",
    ],
)
def test_a_value_that_the_library_rejects_is_wrong_usage(line, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(line.replace("NET", str(SHIPPED)).split()) == 2
    output = capsys.readouterr()
    assert output.err.startswith("equilibria: ")
    assert output.err.endswith("--help)\n")
    assert output.err.count("\n") == 1
    assert line.split()[-1] in output.err, "it names the value"
    assert not list(tmp_path.iterdir())


def test_the_time_of_recipes_is_listed():
    """tests/test_results.py checks that the catalogue is up to date."""
    rows = json.loads(CATALOGUE.read_text())["recipes"]
    assert [row["name"] for row in rows] == list(RECIPES)
    assert all(row["training_minutes"] for row in rows)
    timed = json.loads((RESULTS / "timings.json").read_text())
    assert {row["name"] for row in rows if row["measuring_minutes"]} == timed.keys()


def test_final_measurements():
    recipe = RECIPES["prefix_sum/fast"]
    assert default_final(replace(recipe, seed=7)) == "full"
    assert default_final(recipe.override({"optim.steps": 30})) == "quick"
    assert final_points(recipe.evaluation, "none") == []
    assert final_points(recipe.evaluation, "full") == list(recipe.evaluation.finally_at)
    assert [point[:2] for point in final_points(recipe.evaluation, "quick")] == list(recipe.evaluation.at)


@pytest.mark.parametrize(("final", "difficulties"), [("none", []), ("quick", [3]), ("full", [3, 4])])
def test_the_summary_says_what_was_measured_and_a_check_repeats_it(final, difficulties, tmp_path, capsys):
    path = tmp_path / "recipe.json"
    path.write_text(SHORT.to_json())
    out = tmp_path / "run"
    assert main(["train", str(path), "--out", str(out), "--final", final, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["final"] == final
    assert summary["measuring_seconds"] >= 0
    assert [one["difficulty"] for one in summary["measurements"]] == difficulties
    assert main(["evaluate", str(out), "--check"]) == (0 if difficulties else 1)
    assert main(["evaluate", str(out), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [one["difficulty"] for one in found["measurements"]] == [3, 4], "without --check it measures everything"


def test_the_progress_of_a_measurement_rises_to_one(runs):
    run, shares = Run(runs / "edges" / "seed-0"), []
    measure_final(run.model(), run.recipe, on_progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) >= 4
    assert shares[-1] == pytest.approx(1)


def json_of(capsys, *arguments) -> object:
    capsys.readouterr()
    assert main([str(argument) for argument in (*arguments, "--json")]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_follows_the_documented_schemas(runs, tmp_path, capsys):
    one = runs / "edges" / "seed-0"
    (tmp_path / "recipe.json").write_text(SHORT.to_json())
    outputs = {
        "list recipes": json_of(capsys, "list", "recipes"),
        "list tasks": json_of(capsys, "list", "tasks"),
        "list runs": json_of(capsys, "list", "runs", "--folder", runs),
        "list plugins": json_of(capsys, "list", "plugins"),
        "train": json_of(capsys, "train", tmp_path / "recipe.json", "--out", tmp_path / "run"),
        "evaluate": json_of(capsys, "evaluate", one),
        "measure": json_of(capsys, "measure", one, "--examples", 4, "--restarts", 2),
        "attack": json_of(capsys, "attack", one, "--examples", 2, "--updates", 2, "--guesses", 1),
        "sweep": json_of(capsys, "sweep", tmp_path / "recipe.json", "--out", tmp_path / "s", "--workers", 1),
        "reproduce --list": json_of(capsys, "reproduce", "--list", "--out", tmp_path / "r"),
    }
    assert outputs.keys() == SCHEMAS["properties"].keys()
    for name, output in outputs.items():
        schema = {"$defs": SCHEMAS["$defs"], **SCHEMAS["properties"][name]}
        jsonschema.Draft202012Validator(schema).validate(output)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator({"$defs": SCHEMAS["$defs"], **SCHEMAS["properties"]["train"]}).validate({})
