"""The shortened version of `benchmarks/torture.py`: processes killed at disk operations, and flipped bits."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "torture.py"


def numbers(path: Path) -> dict[str, float]:
    return {line["what"]: line["value"] for line in json.loads(path.read_text())["lines"]}


def keeps_its_promises(found: dict[str, float]) -> list[str]:
    """The lines that do not."""
    perfect = {"noticed": 100, "lost, unequal or not loadable": 0, "other errors": 0, "files written elsewhere": 0}
    perfect |= {"clients without an answer": 0, "tracebacks of the explorer": 0, "exit code 70": 0, "answers 5xx": 0}
    perfect |= {"exit code 130": 0, "streams that do not end": 0}
    return [
        what for what, value in found.items() for name, best in perfect.items() if what.endswith(name) and value != best
    ]


def test_nothing_is_lost_and_every_flip_is_noticed(tmp_path):
    command = [sys.executable, str(SCRIPT), "--short", "--json", str(tmp_path / "found.json")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    found = numbers(tmp_path / "found.json")
    assert keeps_its_promises(found) == [], finished.stderr
    for name in ("train", "save", "save_pretrained", "reproduce"):
        assert found[f"{name}: kills"] > 5


def test_the_recorded_numbers_keep_every_promise():
    found = numbers(SCRIPT.with_suffix(".json"))
    assert keeps_its_promises(found) == []
    assert found["explorer: most memory with 96 of the heaviest streams"] <= 2.0
    for kind in ("HTTP", "WebSockets"):
        assert found[f"explorer: 100 silent clients, {kind}: another is served after"] <= 15
        assert found[f"explorer: 100 silent clients, {kind}: solves left after 15 s"] == 0
