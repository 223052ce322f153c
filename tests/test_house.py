"""House rules: one name per idea, small files and functions, a docstring for everything that a user imports."""

import ast
import importlib
import inspect
from collections import defaultdict
from pathlib import Path

import pytest

import equilibria

SOURCE = Path(equilibria.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
PUBLIC = ["equilibria", *(f"equilibria.{room}" for room in ("diagnostics", "training", "nets", "tasks"))]
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 300, 60


def short(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def is_command(path: Path) -> bool:
    """The command line has one file per command, named after it."""
    return path.parent == SOURCE / "cli"


def repeated(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.parametrize("path", FILES, ids=short)
def test_no_file_is_long(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", FILES, ids=short)
def test_no_function_is_long(path):
    functions = [node for node in ast.walk(TREES[path]) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lengths = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions}
    assert not {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION}


def test_no_file_name_occurs_twice():
    places = defaultdict(list)
    for path in FILES:
        if path.name != "__init__.py" and not is_command(path):
            places[path.name].append(short(path))
    assert not repeated(places)


def test_no_public_class_name_occurs_twice():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(short(path))
    assert not repeated(places)


def test_no_module_is_shadowed_by_a_name_of_its_package():
    """`import package.thing` must give the module, not a function or class that the package re-exports."""
    shadowed = []
    for path in FILES:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        public = "_public.py" if path.parent == SOURCE else "__init__.py"
        package = TREES.get(path.parent / public)
        names = {
            alias.asname or alias.name
            for node in (package.body if package else [])
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if not _is_module(f"{node.module}.{alias.name}")
        }
        names |= {
            node.name for node in (package.body if package else []) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        if path.stem in names:
            shadowed.append(short(path))
    assert not shadowed


def _is_module(name: str) -> bool:
    path = SOURCE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("module", PUBLIC)
def test_everything_that_a_user_imports_has_a_docstring(module):
    package = importlib.import_module(module)
    missing = []
    for name in package.__all__:
        thing = getattr(package, name)
        if not inspect.isclass(thing) and not inspect.isroutine(thing):
            continue  # a registry or a constant
        if not _documented(thing):
            missing.append(name)
        missing += [f"{name}.{method}" for method, value in _public_methods(thing) if not _documented(value)]
    assert not missing


def _documented(thing: object) -> bool:
    """Whether a class has a docstring of its own, not a generated one; methods may inherit theirs."""
    if not inspect.isclass(thing):
        return bool(inspect.getdoc(thing))
    text = vars(thing).get("__doc__") or ""
    return bool(text) and not text.startswith(f"{thing.__name__}(")


def _public_methods(kind: object) -> list[tuple[str, object]]:
    if not inspect.isclass(kind):
        return []
    own = {name for one in kind.__mro__ if one.__module__.startswith("equilibria") for name in vars(one)}
    kinds = (property, staticmethod, classmethod)
    members = [(name, inspect.getattr_static(kind, name)) for name in sorted(own) if not name.startswith("_")]
    functions = [(name, value) for name, value in members if inspect.isfunction(value) or isinstance(value, kinds)]
    return [(name, value if isinstance(value, property) else getattr(kind, name)) for name, value in functions]


def test_the_rules_find_offenders():
    """The helpers see what they are meant to see."""

    class Undocumented:
        def method(self): ...

        @property
        def documented(self):
            """Yes."""

    Undocumented.__module__ = "equilibria.example"
    assert not _documented(Undocumented)
    assert [name for name, value in _public_methods(Undocumented) if not _documented(value)] == ["method"]
    assert repeated({"a": ["x"], "b": ["x", "y"]}) == {"b": ["x", "y"]}
