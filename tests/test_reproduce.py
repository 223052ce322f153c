"""A reproduction in real processes: finished work is never repeated, also after interruptions."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from small_figure import COMMAND, SCRIPT, SMOKE, Broken, Slow, Small, blocks

from equilibria.cli import main
from equilibria.reproduction import reproduce
from equilibria.reproduction.engine.run import OutdatedRows
from equilibria.reproduction.measures.profile import Profile
from equilibria.training import Run

SLOWLY = os.environ | {"SLOW_SECONDS": "10"}  # so that there is time to disturb it


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in folder.rglob("*")
        if path.is_file()
    }


def without_times(measured: list[dict]) -> list[dict]:
    return [{name: value for name, value in block.items() if name != "seconds"} for block in measured]


class TestAgain:
    def test_everything_is_written(self, made):
        there = {path.name for path in (made / "smoke" / "small").iterdir()}
        assert there == {"rows.json", "claims.json", "figure.svg", "figure.png"}
        assert {path.name for path in (made / "smoke").iterdir()} == {
            "nets",
            "small",
            "environment.json",
            "report.html",
        }

    def test_a_second_time_does_nothing_and_says_so(self, copy, capsys):
        before = files(copy)
        assert main([*COMMAND, str(copy)]) == 0
        assert "nothing to train and nothing to measure" in capsys.readouterr().out
        assert files(copy) == before

    def test_a_changed_recipe_retrains_its_net_alone(self, copy, capsys):
        before, rows, events = files(copy / "smoke" / "nets"), blocks(copy), []
        figure = Small(rate=2e-3)
        changed = figure.plan(SMOKE)[2].net.recipe
        outcome = reproduce([figure], SMOKE, copy, workers=1, on_progress=events.append)
        assert outcome.trained == [changed.id]
        assert outcome.measured == 2
        (outdated,) = [event for event in events if isinstance(event, OutdatedRows)]
        assert "2 of its 6 measurements are of other nets" in str(outdated)
        after = files(copy / "smoke" / "nets")
        assert {name: after[name] for name in before} == before
        same = [block for block in blocks(copy) if block["net"] != changed.id]
        assert same == [block for block in rows if block["net"] != rows[2]["net"]]

    def test_rows_of_another_version_are_re_measured(self, copy, capsys):
        path = copy / "smoke" / "small" / "rows.json"
        older = {"format": 2, "figure": "small", "measured": blocks(copy)}
        for block in older["measured"][1::2]:
            block["measure"] = Slow(unit=2).id
        path.write_text(json.dumps(older))
        assert main([*COMMAND, str(copy)]) == 0
        output = capsys.readouterr().out
        assert "small: 3 of its 6 measurements are of other nets, or of another version of the figure" in output
        assert "0 nets trained, 3 measurements made" in output

    def test_measurements_of_another_figure_are_used(self, copy):
        class Other(Small):
            name = "other"

        outcome = reproduce([Other()], SMOKE, copy, workers=1)
        assert (outcome.trained, outcome.measured) == ([], 0)
        assert "other" in outcome.finished


class TestDisturbed:
    def test_killed_in_the_middle_and_resumed(self, made, tmp_path):
        shutil.copytree(made / "smoke" / "nets", tmp_path / "smoke" / "nets")
        command = [sys.executable, SCRIPT, *COMMAND, tmp_path]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=SLOWLY)
        until((tmp_path / "smoke" / "small" / "rows.json").exists)
        process.kill()
        process.communicate()
        assert 0 < len(blocks(tmp_path)) < 6
        left = tmp_path / "smoke" / "small" / f".rows.json.{process.pid}.part"
        left.write_text('{"figure"')
        again = subprocess.run(command, capture_output=True, text=True)
        assert again.returncode == 0, again.stdout
        assert "0 nets trained" in again.stdout
        assert not left.exists()
        assert without_times(blocks(tmp_path)) == without_times(blocks(made))
        for name in ("claims.json", "figure.svg", "figure.png"):
            assert (tmp_path / "smoke/small" / name).read_bytes() == (made / "smoke/small" / name).read_bytes()

    def test_control_c_saves_and_the_same_command_resumes(self, made, tmp_path):
        shutil.copytree(made / "smoke" / "nets", tmp_path / "smoke" / "nets")
        command = [sys.executable, SCRIPT, *COMMAND, tmp_path]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=SLOWLY)
        until((tmp_path / "smoke" / "small" / "rows.json").exists)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "the same command resumes" in output
        assert "Traceback" not in output
        known = without_times(blocks(tmp_path))
        assert 0 < len(known) < 6
        assert known == without_times(blocks(made))[: len(known)]

    def test_a_failed_measurement_does_not_affect_the_others(self, copy):
        class Bad(Small):
            name = "bad"

        figures = [Bad(measures=(Broken(), *Small().measures)), Small()]
        outcome = reproduce(figures, SMOKE, copy, workers=1)
        assert list(outcome.finished) == ["small"]
        reason = "3 of its measurements failed (Broken of unroll, depth 32, "
        assert outcome.failed["bad"].startswith(reason)

    def test_a_figure_that_cannot_be_drawn_does_not_affect_the_others(self, copy):
        class Undrawn(Small):
            name = "undrawn"

            def draw(self, rows):
                raise KeyError("colour")

        outcome = reproduce([Undrawn(), Small()], SMOKE, copy, workers=1)
        assert list(outcome.finished) == ["small"]
        assert "KeyError: 'colour' (test_reproduce.py, line" in outcome.failed["undrawn"]

    def test_damaged_rows(self, copy, capsys):
        path = copy / "smoke" / "small" / "rows.json"
        path.write_text(path.read_text()[:100])
        assert main([*COMMAND, str(copy)]) == 1
        output = " ".join(capsys.readouterr().out.split())
        assert f"{path} is damaged" in output
        assert "remove it, and it is made again" in output


def until(there) -> None:
    deadline = time.monotonic() + 300
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestCheck:
    def test_fresh_results_pass(self, copy, capsys):
        before = files(copy)
        assert main([*COMMAND, str(copy), "--check", "--sample", "4"]) == 0
        assert "4 of 6 measurements repeated: all numbers agree" in capsys.readouterr().out
        assert files(copy) == before, "a check writes nothing"

    def test_changed_files_are_reported(self, copy, capsys):
        folder = copy / "smoke" / "small"
        rows = json.loads((folder / "rows.json").read_text())
        measured = rows["measured"]
        measured[0]["rows"][0]["alignment"] = -0.9
        del measured[1]
        (folder / "rows.json").write_text(json.dumps(rows))
        claims = json.loads((folder / "claims.json").read_text())
        claims["claims"][0]["verdict"] = "does not hold"
        del claims["claims"][1]
        (folder / "claims.json").write_text(json.dumps(claims))
        nets = [step.net.id for step in Small().plan(SMOKE)]
        shutil.copy(copy / "smoke/nets" / nets[0] / "model.safetensors", copy / "smoke/nets" / nets[2])
        shutil.rmtree(copy / "smoke" / "nets" / nets[4])
        assert main([*COMMAND, str(copy), "--check", "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert not told["passed"]
        for words in (
            f"the net solver, .* \\({nets[4]}\\) is missing",
            r"Slow of unroll, .* \(\w+\): no rows; `equilibria reproduce small` measures them",
            r"Profile of unroll, .* \(\w+\): difficulty 8, .*: alignment is 0\.\d+ and was -0\.9 \(allowed: 0\.\d+\)",
            "Profile of unroll, .*, seed 1 .*: DamagedFile: .* is damaged",
        ):
            assert any(re.match(words, sentence) for sentence in told["wrong"]["small"]), (words, told)

    def test_reversed_claims_are_reported(self, copy, capsys):
        """The rows and claims agree with each other but not with the nets."""
        folder = copy / "smoke" / "small"
        rows = json.loads((folder / "rows.json").read_text())
        profiles = [block["rows"][0] for block in rows["measured"] if "alignment" in block["rows"][0]]
        for row in profiles:
            row["alignment"] = 2 - row["alignment"]
            row["rounding_error"]["alignment"] = 10.0  # so wide that each number for itself is within it
        (folder / "rows.json").write_text(json.dumps(rows))
        recorded = [asdict(claim) for claim in Small().claims(profiles)]
        assert [claim["verdict"] for claim in recorded] == ["does not hold", "holds"]
        (folder / "claims.json").write_text(json.dumps({"format": 2, "figure": "small", "claims": recorded}))
        assert main([*COMMAND, str(copy), "--check", "--json"]) == 1
        wrong = json.loads(capsys.readouterr().out)["wrong"]["small"]
        assert [re.sub(r" \(.*", "", sentence) for sentence in wrong] == [
            "claim below_one: as measured now it holds",
            "claim above_one: as measured now it does not hold",
        ]
        assert main([*COMMAND, str(copy), "--check", "--sample", "5"]) == 0, "a sample is not enough to judge"

    def test_claims_must_follow_from_rows(self, copy, capsys):
        path = copy / "smoke" / "small" / "claims.json"
        claims = json.loads(path.read_text())
        claims["claims"][0]["verdict"] = "does not hold"
        claims["claims"][1]["id"] = "something_else"
        path.write_text(json.dumps(claims))
        assert main([*COMMAND, str(copy), "--check", "--sample", "1"]) == 1
        output = " ".join(capsys.readouterr().out.split())
        assert "by its rows it holds" in output
        assert "claim above_one is not in claims.json" in output
        assert "claim something_else in claims.json is not a claim of this figure" in output
        assert "3 differences" in output


def test_the_list(copy, capsys):
    assert main(["reproduce", "--list", "--scale", "smoke", "--out", str(copy), "--json"]) == 0
    (row,) = [row for row in json.loads(capsys.readouterr().out) if row["figure"] == "small"]
    assert row["nets"] == "3/3"
    assert row["claims"] == "1 holds, 1 does not hold"


def test_a_profile_is_what_it_was(made):
    """Re-measured in this process, a net gives the rows that a worker wrote."""
    figure = Small()
    measure = figure.measures[0]
    assert isinstance(measure, Profile)
    recorded = next(block for block in blocks(made) if block["measure"] == measure.id)
    run = Run(made / "smoke" / "nets" / recorded["net"])
    assert measure.rows(run.model(), run.recipe) == recorded["rows"]
