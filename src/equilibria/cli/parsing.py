"""Parse the arguments of a command with tyro, and report what is wrong with them in one line."""

import io
import re
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import tyro

from equilibria.cli.commands import help_width
from equilibria.cli.failures import UsageError
from equilibria.io.describe import nearest

FRAME = re.compile("[\u2500-\u257f]+|-{5,}|^[|+]|[|+]$")  # of tyro's boxes, also where a terminal has only ASCII
FLAG = re.compile(r"--[A-Za-z0-9][\w.-]*")


def parse(kind: Any, arguments: Sequence[str], name: str, default: Any = tyro.MISSING_NONPROP) -> Any:
    """Make the `kind` of command that the arguments describe. Raise `UsageError` if they are wrong."""
    errors, output = io.StringIO(), io.StringIO()
    try:
        with redirect_stderr(errors), redirect_stdout(output):
            command, unknown = _tyro(kind, arguments, name, default)
    except SystemExit as stopped:
        if not stopped.code:  # help
            print("\n".join(map(_wrapped, output.getvalue().splitlines())))
            raise
        raise UsageError(_in_one_line(errors.getvalue() + output.getvalue()), name) from None
    except ValueError as error:  # of a dataclass that the flags describe
        raise UsageError(str(error), name) from error
    if unknown:
        raise UsageError(_unknown(unknown[0], kind, name, default), name)
    return command


def _tyro(kind: Any, arguments: Sequence[str], name: str, default: Any) -> tuple[Any, list[str]]:
    return tyro.cli(
        kind,
        args=list(arguments),
        prog=f"equilibria {name}",
        default=default,
        return_unknown_args=True,
        config=(tyro.conf.AvoidSubcommands,),
    )


def _wrapped(line: str) -> str:
    """A line of help. tyro wraps only what is in its boxes."""
    if len(line) <= help_width() or FRAME.search(line):
        return line
    indent = "       " if line.startswith("usage:") else ""
    return textwrap.fill(line, help_width(), subsequent_indent=indent, break_on_hyphens=False)


def _in_one_line(message: str) -> str:
    """The first part of a box that tyro has drawn around a message."""
    parts: list[str] = []
    for line in message.splitlines()[1:]:
        words = FRAME.sub("", line).strip()
        if not words and parts:  # a rule that ends the message
            break
        parts.append(words)
    text = " ".join(" ".join(parts).split()) or " ".join(FRAME.sub("", message).split())
    return text.removeprefix("Error parsing ").rstrip(".")


def _unknown(word: str, kind: Any, name: str, default: Any) -> str:
    if not word.startswith("-"):
        return f"unexpected argument {word!r}"
    flag = word.partition("=")[0].replace("_", "-")
    shown = io.StringIO()
    try:
        with redirect_stdout(shown):
            _tyro(kind, ["--help"], name, default)
    except SystemExit:
        pass
    known = sorted({one.rstrip(".") for one in FLAG.findall(shown.getvalue())})
    ends = [one for one in known if one.endswith(f".{flag.removeprefix('--')}")]
    return f"there is no flag {flag}; " + (f"did you mean {' or '.join(ends)}?" if ends else _near(flag, known))


def _near(flag: str, known: list[str]) -> str:
    hint = nearest(flag, known)
    return hint if hint.startswith("did you mean") else "see the flags that there are with --help"
