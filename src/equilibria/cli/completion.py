"""`equilibria completion`."""

import functools
import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from equilibria.cli.commands import COMMANDS
from equilibria.cli.flags import CommandFlags


@dataclass(frozen=True)
class Completion(CommandFlags):
    """Print the script that completes commands in your shell.

    For bash, run `equilibria completion bash > ~/.local/share/bash-completion/completions/equilibria`. For zsh, write
    the script to a file `_equilibria` in a folder of your `fpath`. For fish, write it to
    `~/.config/fish/completions/equilibria.fish`.
    """

    shell: Annotated[tyro.conf.Positional[Literal["bash", "zsh", "fish"]], tyro.conf.arg(metavar="{bash,zsh,fish}")]
    """The shell that you use."""

    def run(self) -> int:
        """Print the script."""
        kinds: list[Any] = [
            Annotated[command.load(), tyro.conf.subcommand(name, description=command.summary)]
            for name, command in COMMANDS.items()
        ]
        try:
            tyro.cli(
                functools.reduce(operator.or_, kinds),
                args=["--tyro-write-completion", self.shell, "-"],
                prog="equilibria",
                config=(tyro.conf.AvoidSubcommands,),
            )
        except SystemExit as stopped:  # tyro ends the process
            return int(stopped.code or 0)
        return 0
