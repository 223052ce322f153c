"""Imports point one way: a module may import only what is above it in this list."""

import ast
from pathlib import Path

import pytest

import equilibria

LAYERS = [  # modules, or packages with everything in them
    "plugins",
    "core.answers",
    "core._tree",
    "core._layout",
    "core._map",
    "core._random",
    "core._modules",
    "core._prepare",
    "core.similarity",
    "core._cycles",
    "core.budget",
    "core._residual",
    "core.solution",
    "core._active",
    "core._refill",
    "core._resume",
    "core.stopping",
    "core.conditions",
    "core.loop",
    "core.stream",
    "core.think",
    "core",
    "solvers",
    "gradients",
    "layer",
    "model",
    "io.files",
    "io.manifest",
    "io.progress",
    "io.describe",
    "io.pages",
    "tasks",
    "nets",
    "io.folders",
    "io.hub",
    "io",
    "diagnostics",
    "evaluation",
    "training",
    "reproduction",
    "explorer",
    "cli",
    "__main__",
]
APART = {"tasks": {"io.files", "plugins"}}  # tasks do not import the core
SOURCE = Path(equilibria.__file__).parent
PUBLIC = (SOURCE / "__init__.py", SOURCE / "_public.py")  # may import everything
FILES = sorted(path for path in SOURCE.rglob("*.py") if path not in PUBLIC)


def layer(module: str) -> str:
    """The most specific entry of LAYERS that `module`, below `equilibria`, belongs to."""
    fitting = [one for one in LAYERS if module == one or module.startswith(f"{one}.")]
    assert fitting, f"{module} is in no layer"
    return max(fitting, key=len)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    """The modules below `equilibria` that a file imports, also lazily and through importlib."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            is_package = node.module and (SOURCE.parent / node.module.replace(".", "/")).is_dir()
            found |= {name if _exists(name) else node.module for name in names} if is_package else {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _exists(node.value):
            found.add(node.value)  # importlib.import_module("equilibria.hub")
    return {name.removeprefix("equilibria.") for name in found if name and name.startswith("equilibria.")}


def _exists(name: str) -> bool:
    if not name.startswith("equilibria.") or not name.replace(".", "").isidentifier():
        return False
    path = SOURCE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_one_way(path):
    here = layer(module_of(path))
    allowed = APART[here] | {here} if here in APART else set(LAYERS[: LAYERS.index(here) + 1])
    wrong = {name for name in imported(path) if layer(name) not in allowed}
    assert not wrong, f"{module_of(path)} imports {wrong}, which are below {here}"


def test_the_imports_are_really_read(tmp_path):
    assert {"core._active", "core._cycles", "core._tree", "core.solution"} <= imported(SOURCE / "core" / "loop.py")
    lazy = tmp_path / "lazy.py"
    lazy.write_text("def f():\n    import importlib\n    return importlib.import_module('equilibria.io.hub')\n")
    assert imported(lazy) == {"io.hub"}
