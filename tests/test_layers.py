"""Imports point one way only: a module may import what stands before it."""

import ast
from pathlib import Path

import equilibria

CORE = [
    "describe",
    "files",
    "layout",
    "rows",
    "angles",
    "cycles",
    "solution",
    "active",
    "solve",
    "solvers",
    "gradients",
    "weights",
    "thinking",
    "model",
]
APART = ["tasks"]  # know nothing of the core, nor the core of them
ABOVE = ["nets", "folders", "hub", "diagnostics", "training", "studies", "explorer", "cli", "__main__"]  # may use both
SOURCE = Path(equilibria.__file__).parent


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "equilibria":
                found |= {alias.name for alias in node.names}
            elif node.module and node.module.startswith("equilibria."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("equilibria.")}
    return found


def test_imports_point_one_way():
    files = [path for path in SOURCE.rglob("*.py") if layer(path) != "__init__"]
    assert {layer(path) for path in files} == {*CORE, *APART, *ABOVE}
    for path in files:
        here = layer(path)
        if here in ABOVE:
            allowed = [*CORE, *APART, *ABOVE[: ABOVE.index(here) + 1]]
        else:
            allowed = [here] if here in APART else CORE[: CORE.index(here) + 1]
        wrong = imported_layers(path) - set(allowed)
        assert not wrong, f"{path.relative_to(SOURCE)} imports {wrong}, which stand after {layer(path)}"


def test_the_graph_is_really_read():
    assert {"active", "cycles", "rows", "solution"} <= imported_layers(SOURCE / "solve.py")
