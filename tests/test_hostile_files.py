"""Files that somebody else made: no hang, no write elsewhere, no traceback, and no good file is given up."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from small_run import RECIPE, Notes, interrupted

from equilibria.cli import main
from equilibria.io.files import DamagedFile, digest, parse_json, read_json
from equilibria.io.manifest import seal
from equilibria.training import Optim, Run, sweep, train
from equilibria.training import lock as locks
from equilibria.training.lock import AnotherRun, Busy, FolderLock
from equilibria.training.pool import JobEnd
from equilibria.training.recipe import Recipe

SHORT = replace(RECIPE, optim=Optim(steps=2, batch=4))
DEEP = "[" * 100_000
NUMBERS = ['{"a": NaN}', '{"a": 1e999}', f'{{"a": {10**400}}}']
ODD = ["", "{", "null", "[]", "{}", "3", DEEP, '{"a":' * 5000, *NUMBERS, "\ud800"]
MEDIUM = replace(RECIPE, optim=replace(RECIPE.optim, steps=8))
STOP = 6  # the step at which it is interrupted, with the states of the two steps before


def exit_code(arguments: list[str]) -> int:
    """Of a command; tyro exits by itself if a flag is wrong."""
    try:
        return main(arguments)
    except SystemExit as stopped:
        return int(stopped.code or 0)


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "unrelated"])
def test_what_is_in_the_place_of_a_state_is_passed_over(tmp_path, kind):
    folder = tmp_path / "run"
    interrupted(folder, STOP, MEDIUM)
    newest = max(folder.glob("state-*"))
    content = newest.read_bytes()
    newest.unlink()
    (tmp_path / "copy").write_bytes(content)
    if kind == "directory":
        newest.mkdir()
    elif kind == "pipe":
        os.mkfifo(newest)
    elif kind == "link":
        newest.symlink_to(tmp_path / "copy")
    else:
        tensors = load_file(tmp_path / "copy") | {"run.counts": torch.zeros(7)}
        content = save(tensors)
        newest = newest.with_name(f"state-{STOP - 1:08d}-{digest(content)[:16]}.safetensors")
        newest.write_bytes(content)
    notes = Notes()
    assert train(MEDIUM, folder, on_progress=notes).finished
    assert notes.first_step == STOP - 2
    assert newest.name in notes.warnings[0]
    assert (tmp_path / "copy").exists()


def test_a_forged_state_is_named(tmp_path):
    folder = tmp_path / "run"
    interrupted(folder, STOP, MEDIUM)
    for path in folder.glob("state-*"):
        content = save(load_file(path) | {"rng": torch.zeros(3, dtype=torch.uint8)})
        path.with_name(f"{path.name[:15]}{digest(content)[:16]}.safetensors").write_bytes(content)
        path.unlink()
    with pytest.raises(DamagedFile, match=rf"the state of step {STOP - 1} .* does not fit its recipe"):
        train(MEDIUM, folder)


def test_a_changed_recipe_does_not_cost_the_states(tmp_path, capsys):
    folder = tmp_path / "run"
    interrupted(folder, STOP, MEDIUM)
    states = {path.name: path.read_bytes() for path in folder.glob("state-*")}
    recipe = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps(recipe | {"seed": 1}))
    for sealed in (True, False):
        if not sealed:
            (folder / "manifest.json").unlink()
        assert main(["train", str(folder)]) == 1
        assert "recipe.json" in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in folder.glob("state-*")} == states
    with pytest.raises(AnotherRun, match=r"recipe.json was changed: it is recipe .* but the saved states are of"):
        train(Recipe.load(folder / "recipe.json"), folder)


def test_states_left_by_a_kill_after_the_summary_are_removed(tmp_path):
    folder = tmp_path / "run"
    interrupted(folder, STOP, MEDIUM)
    states = {path.name: path.read_bytes() for path in folder.glob("state-*")}
    train(MEDIUM, folder)
    for name, content in states.items():
        (folder / name).write_bytes(content)
    train(MEDIUM, folder)
    assert not list(folder.glob("state-*"))


def test_metrics_that_were_changed_before_a_resume_are_reported(tmp_path):
    folder = tmp_path / "run"
    longer = replace(MEDIUM, optim=replace(MEDIUM.optim, steps=14))  # losses are recorded every ten steps
    interrupted(folder, 12, longer)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b"loss", b"1oss", 1))
    notes = Notes()
    train(longer, folder, on_progress=notes)
    assert f"{path} is damaged" in notes.warnings[0]


def test_another_error_of_the_lock_is_not_another_process(tmp_path, monkeypatch):
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    assert locks.fcntl is not None
    monkeypatch.setattr(locks.fcntl, "flock", unsupported)  # a file system without locks cannot be made here
    with pytest.raises(OSError, match=r"cannot lock .*train in a folder on a disk that supports locks") as caught:
        train(RECIPE, tmp_path / "run")
    assert not isinstance(caught.value, Busy)


def test_a_removed_lock_lets_only_one_continue(tmp_path):
    with FolderLock.held(tmp_path) as first:
        (tmp_path / ".lock").unlink()
        first.ensure()  # nobody else has locked the folder: locked again
        with pytest.raises(Busy), FolderLock.held(tmp_path):
            pass
        (tmp_path / ".lock").unlink()
        with FolderLock.held(tmp_path), pytest.raises(Busy):
            first.ensure()


@pytest.mark.parametrize("content", ODD, ids=[repr(odd[:12]) for odd in ODD])
def test_odd_json_is_damage(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_bytes(content.encode(errors="surrogatepass"))
    if content == "{}":
        assert read_json(path) == {}
        return
    with pytest.raises(DamagedFile, match=r"file.json is damaged"):
        read_json(path)


def test_json_limits():
    deep = '{"a": "[[[[", "b": ' + "[" * 60 + "]" * 60 + "}"
    assert parse_json(deep, "deep")["a"] == "[[[["
    with pytest.raises(DamagedFile, match="nested more than 64 levels"):
        parse_json("[" * 65 + "]" * 65, "deep", list)
    with pytest.raises(DamagedFile, match="is too large"):
        parse_json("[18446744073709551616]", "large", list)
    assert parse_json("[18446744073709551615, -3]", "large", list) == [2**64 - 1, -3]


@pytest.mark.parametrize("name", ["recipe.json", "summary.json", "config.json"])
def test_no_content_of_a_run_gives_a_traceback(tmp_path, name, capsys):
    folder = train(SHORT, tmp_path / "runs" / "run").folder
    good = (folder / name).read_text()
    fields = json.loads(good)
    for content in ODD:
        (folder / name).write_bytes(content.encode(errors="surrogatepass"))
        seal(folder)
        for command in (["evaluate", str(folder), "--at", "6", "2", "--examples", "2"], ["train", str(folder)]):
            code = exit_code(command)
            assert code in (0, 1), (content, capsys.readouterr().err)
    for field in fields:
        for odd in (None, [], "x", 2**63):
            (folder / name).write_text(json.dumps(fields | {field: odd}))
            seal(folder)
            with suppress(ValueError, OSError):  # of which commands print one line
                train(Run(folder).recipe, folder)
    assert main(["list", "runs", "--folder", str(tmp_path / "runs")]) == 0
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    assert "unexpected" not in captured.err


@pytest.mark.parametrize(
    "command",
    [
        ["train", "edge_copy/fast", "--net.width", "100000000"],
        ["train", "edge_copy/fast", "--net.width", "9223372036854775808"],
        ["train", "prefix_sum/fast", "--seed", str(2**64)],
        ["train", "matrix_inversion/dense", "--task.side", "1000000"],
        ["sweep", "prefix_sum/fast", "--grid", "seed=0..99999999999"],
        ["sweep", "prefix_sum/fast", "--grid", "seed=0..9999", "optim.lr=1,2,3,4,5,6,7,8,9,10,11,12"],
        ["sweep", "prefix_sum/fast", "--grid", f"seed={DEEP[:5000]}"],
    ],
)
def test_absurd_flags_give_a_message_and_leave_no_folder(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert exit_code(command) in (1, 2)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "unexpected" not in captured.err
    assert not [path for path in tmp_path.rglob("*") if path.name != "runs"]


def test_an_unexpected_error_has_its_own_exit_code_and_a_log(monkeypatch, capsys):
    def fail(_: object) -> int:
        raise RuntimeError("a defect\nof two lines")

    monkeypatch.setattr("equilibria.cli.listing.List.run", fail)
    assert main(["list"]) == 70
    message = capsys.readouterr().err
    assert message.startswith("equilibria: unexpected RuntimeError: a defect; the details are in ")
    details = Path(message.strip().rsplit(" ", 1)[1])
    assert "Traceback" in details.read_text()
    details.unlink()


def test_one_damaged_run_does_not_stop_a_sweep(tmp_path):
    folder = train(SHORT, tmp_path / SHORT.id).folder
    (folder / "summary.json").write_text("[]")

    def execute(jobs: Sequence[tuple[Recipe, Path]]) -> Iterator[tuple[int, JobEnd]]:
        for number, (recipe, place) in enumerate(jobs):
            yield number, JobEnd("finished", train(recipe, place).summary)

    entries = sweep([SHORT, replace(SHORT, seed=1)], tmp_path, execute=execute)
    assert [entry.state for entry in entries] == ["failed", "finished"]
    assert "summary.json is damaged or was changed" in entries[0].reason


def test_an_interrupt_during_the_import_is_quiet(tmp_path):
    """Ctrl-C at several moments of the import of torch and equilibria."""
    script = "import sys; from equilibria_entry import main; print('go', flush=True); sys.exit(main())"
    command = [sys.executable, "-c", script, "measure", str(tmp_path)]  # `list` imports no torch
    for delay in (0.02, 0.4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, "interrupted\n")
