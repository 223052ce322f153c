"""`equilibria new`."""

import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import jinja2
import tyro

from equilibria import __version__
from equilibria.cli.failures import UsageError
from equilibria.cli.flags import CommandFlags
from equilibria.io.files import write_atomically

SKELETON = Path(__file__).with_name("skeleton")
TAKEN = {"equilibria", "tests", "torch", "numpy"}  # modules that a package of this name would hide


@dataclass(frozen=True)
class New(CommandFlags):
    """Create a package with a task, a net, a recipe, a view and tests of your own.

    `equilibria new task my_task` writes a folder my_task that works as it is. Its README.md lists the commands to
    train, evaluate, diagnose and explore it. Replace its parts with your own, one at a time.
    """

    what: Annotated[tyro.conf.Positional[Literal["task"]], tyro.conf.arg(metavar="task")]
    """What to create."""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Name of the task, such as game_of_life: lower-case letters, digits and underscores."""
    out: Path | None = None
    """Folder to create. Defaults to NAME."""

    def run(self) -> int:
        """Write the package."""
        name = self.name.replace("-", "_")
        if not re.fullmatch("[a-z][a-z0-9_]{0,49}", name) or keyword.iskeyword(name) or name in TAKEN:
            raise UsageError(
                f"NAME must be lower-case letters, digits and underscores, not a known module, got {self.name!r}",
                "new",
            )
        folder = self.out or Path(name)
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} exists and is not empty; pass --out with another folder")
        values = {"name": name, "title": "".join(map(str.capitalize, name.split("_"))), "version": __version__}
        loader = jinja2.FileSystemLoader(SKELETON)
        environment = jinja2.Environment(loader=loader, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
        for template in sorted(environment.list_templates()):
            place = template.removesuffix(".j2").replace("test_package", f"test_{name}")
            place = place.replace("package/", f"{name}/", 1) if place.startswith("package/") else place
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / place, environment.get_template(template).render(values).encode())
        print(f"wrote {folder}; next: cd {folder} && equilibria train {name}/quick --import {name} --out runs/first")
        return 0
