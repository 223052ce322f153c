"""Nonsense for `torture.py`: recipes, flags, and bodies for the explorer."""

import contextlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import Line
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

RECIPES, FLAGS, HTTP, SOCKET = 800, 400, 400, 400
SECONDS, WALL_SECONDS = 20, 60  # a command that computes, or waits, for longer is interrupted and counted as slow
MEMORY = 6 * 10**9  # bytes of address space of a process that runs commands
NUMBERS = [0, -1, 1, 3, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e-300, 1e300, float("nan"), float("inf")]
WORDS = ["", "x", "none", "picard", "\ud800", "../../x", "/etc/passwd", "a" * 10_000]
ODD = [None, True, *NUMBERS, *WORDS, [], [[]], {}, {"kind": []}, {"kind": "dense"}, [1, 2, 3], {"a": {"b": {}}}]
NAMES = ["--seed", "--net.width", "--optim.lr", "--depth", "--solver", "--extras", "--out", "--pool", "--tol"]
RESULTS = Path(__file__).parent.parent / "results"
MAZE = {
    "net": "mazes/fast/seed-0",
    "input": {"difficulty": 9, "seed": 1},
    "steps": 3,
    "start": {"kind": "noise", "seed": 1},
}


def mutated(data: Any, chance: random.Random) -> Any:
    """A copy with one value replaced by an odd one, or one name changed."""
    if not isinstance(data, (dict, list)) or not data or chance.random() < 0.15:
        return chance.choice(ODD)
    if isinstance(data, list):
        place = chance.randrange(len(data))
        return [mutated(value, chance) if i == place else value for i, value in enumerate(data)]
    name = chance.choice(list(data))
    if chance.random() < 0.1:
        return {(key + "x" if key == name else key): value for key, value in data.items()}
    return data | {name: mutated(data[name], chance)}


def text_of(data: Any, chance: random.Random) -> bytes:
    """JSON, sometimes cut off or with a changed byte."""
    content = bytearray(json.dumps(data).encode())
    if content and chance.random() < 0.15:
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content[: chance.randrange(1, len(content) + 1)] if chance.random() < 0.1 else content)


def run(arguments: list[str]) -> int:
    """The exit code of a command in this process."""
    from equilibria.cli import main

    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, lambda *_: signal.raise_signal(signal.SIGINT))  # as if somebody pressed Ctrl-C
    signal.alarm(WALL_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            code = main(arguments)
            assert "Traceback" not in errors.getvalue()
            return code
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def flags(chance: random.Random, folder: Path) -> list[str]:
    """A command with nonsense in its flags."""
    value = str(chance.choice([odd for odd in ODD if not isinstance(odd, (dict, list)) and odd != "\ud800"]))
    name = chance.choice(NAMES)
    return chance.choice(
        [
            ["train", str(folder / "good.json"), name, value, "--out", str(folder / "runs" / str(chance.random()))],
            ["train", str(folder / "good.json"), f"{name}={value}", "--optim.steps", value],
            ["evaluate", str(folder / "run"), "--examples", value, "--at", value, value],
            ["evaluate", value, "--check"],
            ["list", "runs", "--folder", value],
            ["list", value],
            ["sweep", str(folder / "good.json"), "--grid", f"{name.strip('-')}={value}..{value}", "--workers", value],
            ["sweep", str(folder / "none.json"), "--grid", f"seed={value}"],
            ["seal", value],
            ["reproduce", value, "--scale", value],
            ["explore", value, "--port", value],
            [value, name],
        ]
    )


def commands(seed: int) -> None:
    """The child: prints how many commands ended with which exit code, and what was written elsewhere."""
    import torch
    from torture import RECIPE

    from equilibria.training import train

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chance, codes, outside = random.Random(seed), Counter[str](), set[str]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.chdir(folder)
        small = {"optim.steps": 1, "optim.batch": 2, "evaluation.at": [], "evaluation.finally_at": []}
        tiny = RECIPE.override({**small, "select": "last"})
        (folder / "good.json").write_text(tiny.to_json())
        train(tiny, folder / "run")

        def audit(event: str, values: tuple) -> None:
            if event == "open" and values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and isinstance(values[0], str):
                path = os.path.abspath(values[0])
                if not path.startswith((scratch, "/dev/null", "/proc/")) and "equilibria-" not in path:
                    outside.add(path)

        sys.addaudithook(audit)
        for number in range(RECIPES + FLAGS):
            if number < RECIPES:
                data = tiny.data()
                for _ in range(chance.choice([1, 1, 2, 3])):
                    data = mutated(data, chance)
                (folder / "odd.json").write_bytes(text_of(data, chance))
                words = ["train", str(folder / "odd.json"), "--out", str(folder / "runs" / str(number))]
            else:
                words = flags(chance, folder)
            try:
                code = str(run(words))
            except BaseException as error:
                code = f"{type(error).__name__}"
            if code not in ("0", "1", "2"):
                print(code, words, (folder / "odd.json").read_bytes()[:3000], file=sys.stderr, flush=True)
            codes[code] += 1
    print(json.dumps({"codes": codes, "outside": sorted(outside)}))


def post(address: str, body: bytes) -> int:
    """The status of a request."""
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}/api/think", body), timeout=60) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def bodies(address: str, seed: int) -> Counter[str]:
    """Statuses of nonsense sent over HTTP and a WebSocket."""
    chance, found = random.Random(seed), Counter[str]()
    for _ in range(HTTP):
        found[f"{post(address, text_of(mutated(MAZE, chance), chance)) // 100}xx"] += 1
    for _ in range(SOCKET // 20):
        live = connect(f"{address.replace('http', 'ws')}/api/live", open_timeout=30, close_timeout=1)
        with live as page, contextlib.suppress(ConnectionClosed):
            for _ in range(20):
                message = text_of(mutated({"id": 1, **MAZE}, chance), chance)
                page.send(message if chance.random() < 0.5 else message.decode(errors="replace"))
                with contextlib.suppress(TimeoutError):
                    reply = page.recv(timeout=2)
                    event: dict[str, Any] = json.loads(reply) if isinstance(reply, str) else {"event": "frames"}
                    found[f"{(event['status'] if event['event'] == 'refused' else 200) // 100}xx"] += 1
    return found


def lines() -> Iterator[Line]:
    """What 2000 nonsensical recipes, flags and bodies led to."""
    from explorer_server import start_explorer

    words = [sys.executable, __file__, "commands"]
    child = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent)
    found = json.loads(child.stdout.splitlines()[-1])
    yield Line("fuzz: recipes and flags", sum(found["codes"].values()))
    for code, count in sorted(found["codes"].items()):
        yield Line(f"fuzz: exit code {code}", count)
    yield Line("fuzz: files written elsewhere", len(found["outside"]))
    with start_explorer(RESULTS, stderr=subprocess.PIPE) as (address, process):
        statuses = bodies(address, seed=0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    yield Line("fuzz: bodies over HTTP and WebSockets", HTTP + SOCKET)
    for status, count in sorted(statuses.items()):
        yield Line(f"fuzz: answers {status}", count)
    yield Line("fuzz: tracebacks of the explorer", errors.count("Traceback"))


if __name__ == "__main__":
    commands(seed=0)
