"""Run commands of pages as a reader would: python tests/page_commands.py FOLDER < commands, one per line.

Each command runs in FOLDER, in a process of its own that is forked after the imports, which take longer than most
commands. A command that serves is interrupted with Ctrl-C when its page answers. Prints one line of JSON per
command, with its exit code and output.
"""

import json
import os
import re
import shlex
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ADDRESS = re.compile(r"The explorer is at (\S+)")
MOST_SECONDS = 240.0  # of one command, on a busy machine


def is_endless(words: list[str]) -> bool:
    """Whether the command serves, and is interrupted when its page answers."""
    return words[0] == "explore" and "--export" not in words


def has_begun(output: Path) -> bool:
    """Whether the page of `explore` answers."""
    if found := ADDRESS.search(output.read_text()):
        with urllib.request.urlopen(f"{found[1]}api/nets", timeout=60) as answer:
            return bool(json.load(answer))
    return False


def run(words: list[str]) -> dict[str, object]:
    """Run a command; return its exit code and what it printed."""
    output = Path("output.txt")
    output.write_text("")
    begin = time.monotonic()
    child = os.fork()
    if not child:
        _become(words, output)
    interrupted = False
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if is_endless(words) and not interrupted and has_begun(output):
            os.kill(child, signal.SIGINT)
            interrupted = True
        if time.monotonic() - begin > MOST_SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    return {"code": os.waitstatus_to_exitcode(ended[1]), "interrupted": interrupted, "output": output.read_text()}


def _become(words: list[str], output: Path) -> None:
    """Run the command in this process, and exit."""
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    code = 1
    try:
        command: Callable[[], int] = __import__("equilibria_entry").main
        sys.argv = ["equilibria", *words]
        code = command()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run the commands of standard input."""
    os.chdir(sys.argv[1])
    os.environ.update(MPLBACKEND="agg", BROWSER="true")  # `true` stands for a browser, which explore opens
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and messages would wrap
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell inherit that it is ignored
    import equilibria.cli.options
    import equilibria.diagnostics
    import equilibria.explorer
    import equilibria.reproduction  # noqa: F401

    for line in sys.stdin.read().splitlines():
        print(json.dumps({"command": line, **run(shlex.split(line)[1:])}), flush=True)


if __name__ == "__main__":
    main()
