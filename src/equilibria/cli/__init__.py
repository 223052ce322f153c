"""The command line. `equilibria.cli.commands` lists the commands; each is imported when it is called."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from equilibria.cli.commands import COMMANDS, overview
from equilibria.cli.failures import BROKEN_PIPE, INTERRUPTED, UsageError, report, short_warnings

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 (failed), 2 (wrong usage), 70 (unexpected), 130 (interrupted)."""
    with short_warnings():
        try:
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
            sys.stdout.flush()
            return code
        except SystemExit as stopped:  # of tyro, after it has shown the help of a command
            return int(stopped.code or 0)
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            return report(error)


def _let_ctrl_c_raise() -> None:
    """Restore the usual handler once all modules are imported, some of which cannot be interrupted cleanly."""
    if getattr(signal.getsignal(signal.SIGINT), "__module__", "") == "equilibria_entry":
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(arguments: list[str]) -> int:
    modules, arguments = _split_modules(arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] == "--version":
        from equilibria import __version__

        print(f"equilibria {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        from equilibria.io.describe import nearest

        what = "flag" if name.startswith("-") else "command"
        raise UsageError(f"there is no {what} {name}; {nearest(name, [*COMMANDS, '--help', '--version', '--import'])}")
    from equilibria.plugins import import_modules, named_modules

    if wanted := [*named_modules(), *modules]:
        import_modules(wanted)
    try:
        command = _parse(name, rest)
        _let_ctrl_c_raise()
        return command.run()
    except UsageError as error:
        error.command = error.command or name
        raise


def _parse(name: str, arguments: list[str]) -> Any:
    from equilibria.cli.parsing import parse

    kind = COMMANDS[name].load()
    return kind.parse(arguments) if hasattr(kind, "parse") else parse(kind, arguments, name)


def _split_modules(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The modules of --import, which decide which names and flags exist, and the other arguments."""
    modules, rest, words = [], [], iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag != "--import":
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if not value or value.startswith("-"):
            raise UsageError("--import takes the name of a module, such as --import my_module")
        modules += value.split(",")
    return modules, rest
