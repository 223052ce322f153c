"""The command line.

`equilibria quickstart | list | train | evaluate | measure | attack | diagnose | sweep | reproduce | explore | seal`
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from equilibria.cli.attack import AttackCommand
from equilibria.cli.diagnose import DiagnoseCommand
from equilibria.cli.evaluate import Evaluate
from equilibria.cli.explore import Explore
from equilibria.cli.failures import FAILED, INTERRUPTED, printable, report, short_warnings
from equilibria.cli.listing import List
from equilibria.cli.measure import MeasureCommand
from equilibria.cli.quickstart import Quickstart
from equilibria.cli.reproduce import Reproduce
from equilibria.cli.seal import Seal
from equilibria.cli.sweep import Sweep
from equilibria.cli.train import Train, resume_command, with_recipe
from equilibria.training import Interrupted, TrainingDiverged

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 (failed), 2 (wrong flags), 70 (unexpected), 130 (interrupted)."""
    with short_warnings():
        return _run(list(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    try:
        if arguments.count("--grid") > 1:
            raise ValueError("--grid is given twice; list all axes after one --grid")
        train, arguments = with_recipe(arguments)
        command = tyro.cli(
            Annotated[Quickstart, tyro.conf.subcommand("quickstart")]
            | Annotated[List, tyro.conf.subcommand("list")]
            | Annotated[Train, tyro.conf.subcommand("train", default=train)]
            | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
            | Annotated[MeasureCommand, tyro.conf.subcommand("measure")]
            | Annotated[AttackCommand, tyro.conf.subcommand("attack")]
            | Annotated[DiagnoseCommand, tyro.conf.subcommand("diagnose")]
            | Annotated[Sweep, tyro.conf.subcommand("sweep")]
            | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
            | Annotated[Explore, tyro.conf.subcommand("explore")]
            | Annotated[Seal, tyro.conf.subcommand("seal")],
            args=arguments,
            prog="equilibria",
            description="Train, measure and use equilibrium models: networks that iterate until they settle.",
            config=(tyro.conf.AvoidSubcommands,),
        )
        return command.run()
    except Interrupted as stopped:
        print(f"{stopped}; to resume: {resume_command(stopped.folder, arguments)}", file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except TrainingDiverged as error:
        print(f"equilibria: {printable(error)}", file=sys.stderr)
        return FAILED
    except Exception as error:
        return report(error)
