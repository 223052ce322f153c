"""Kinds from outside the package: tasks, nets, solvers and so on of installed plugins and of your own modules.

An installed package adds kinds with entry points, for example in the group `equilibria.tasks`. A module adds them with
an assignment, for example `TASKS["parity"] = Parity`, and is named with `--import` or EQUILIBRIA_IMPORT.

The content of a file never decides what is imported: only entry points of installed packages and modules that the user
names are. A recipe or a model that needs something else says what, and nothing is imported for it.
"""

import importlib
import importlib.metadata
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "EQUILIBRIA_IMPORT"  # modules to import, separated by commas
MODULE = re.compile(r"[A-Za-z_]\w{0,99}(\.[A-Za-z_]\w{0,99}){0,9}")
NAME = re.compile(r"[\w./-]{1,100}")
MOST_NEEDS = 64  # of one description


class PluginWarning(UserWarning):
    """An installed plugin cannot be used."""


class MissingPlugin(ValueError):
    """A recipe or a model needs a kind that is not part of the package, and that was not imported."""


@dataclass(frozen=True)
class Need:
    """A kind that is not part of the package, and where it comes from."""

    group: str  # such as "tasks"
    name: str
    module: str = ""  # that defines or registers it; empty if a script does
    package: str = ""  # whose entry point it is; empty if it has none

    def __str__(self) -> str:
        what = f"the {self.group.removesuffix('s')} {self.name!r}"
        if self.package:
            return f"{what} of the plugin {self.package}; install that package, or pass --import {self.module}"
        if self.module:
            return f"{what} of the module {self.module}; pass --import {self.module}, or import it first"
        return f"{what}, which a script registered; pass --import with a module that registers it"


@dataclass(frozen=True)
class _Registry:
    base: type
    kinds: dict[str, Any]
    built_in: frozenset[str]


_registries: dict[str, _Registry] = {}
_sources: dict[tuple[str, str], Need] = {}  # of kinds that did not come with the package
_seen: set[tuple[str, str, str]] = set()  # entry points that were loaded or refused
_declared: list[importlib.metadata.EntryPoint] = []
_imported: list[str] = []  # modules that the user named


def extensible(group: str, base: type, kinds: dict[str, Any]) -> None:
    """Let plugins extend the registry `kinds`, whose entries are subclasses or instances of `base`.

    The entry-point group of "tasks" is `equilibria.tasks`.
    """
    _registries[group] = _Registry(base, kinds, frozenset(kinds))


def declare(group: str, name: str, target: str) -> None:
    """Add a kind that is imported only when its registry is: `declare("views", "parity", "my_package.view:Parity")`.

    For what a module registers without being installed, where importing it at once would be slow or need an extra.
    """
    _declared.append(importlib.metadata.EntryPoint(name, target, ".".join(("equilibria", group))))


def load_plugins() -> None:
    """Add the kinds of installed plugins to the registries that have been imported. Warn about those that fail."""
    for group, registry in _registries.items():
        for point in _entry_points(group):
            key = (group, point.name, point.value)
            if key not in _seen:
                _seen.add(key)
                _load(point, group, registry)


def plugin_names(group: str) -> dict[str, str]:
    """The names that installed plugins add to a group, with their packages. Imports nothing."""
    return {point.name: _package(point) for point in _entry_points(group)}


def import_modules(names: Iterable[str]) -> None:
    """Import modules that the user names, so that they register their kinds. The current folder is searched, too."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)  # like python -m
    for name in names:
        before = {group: set(registry.kinds) for group, registry in _registries.items()}
        _import(name)
        for group, registry in _registries.items():
            for kind in registry.kinds.keys() - before.get(group, registry.built_in):
                _sources.setdefault((group, kind), Need(group, kind, name))
        if name not in _imported:
            _imported.append(name)


def named_modules() -> list[str]:
    """The modules of EQUILIBRIA_IMPORT."""
    return [name for name in map(str.strip, os.environ.get(VARIABLE, "").split(",")) if name]


def imported_modules() -> list[str]:
    """The modules that were imported because the user named them; other processes need them, too."""
    return list(_imported)


def need_of(kinds: Mapping[str, Any], name: str) -> Need | None:
    """Where the entry `name` of a registry comes from; None if it is part of the package."""
    for group, registry in _registries.items():
        if registry.kinds is kinds and name not in registry.built_in:
            return _sources.get((group, name)) or Need(group, name, _module_of(kinds[name]))
    return None


def needs_as_data(needs: Sequence[Need]) -> list[dict[str, str]]:
    """Needs as plain data, for a file."""
    return [{name: value for name, value in asdict(need).items() if value} for need in needs]


def needs_from_data(data: Any) -> list[Need]:
    """Read needs from a file. Skips what is malformed, because needs only improve an error message."""
    needs = []
    for one in data[:MOST_NEEDS] if isinstance(data, list) else ():
        if not isinstance(one, dict) or not all(isinstance(value, str) for value in one.values()):
            continue
        group, name, module, package = (one.get(key, "") for key in ("group", "name", "module", "package"))
        if NAME.fullmatch(group) and NAME.fullmatch(name):
            module = module if MODULE.fullmatch(module) else ""
            needs.append(Need(group, name, module, package if module and NAME.fullmatch(package) else ""))
    return needs


def group_of(kinds: Mapping[str, Any]) -> str:
    """The group of a registry, such as "tasks"; empty if it is not extensible."""
    return next((group for group, registry in _registries.items() if registry.kinds is kinds), "")


def _entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    full = ".".join(("equilibria", group))
    points = [*importlib.metadata.entry_points(group=full), *(one for one in _declared if one.group == full)]
    return sorted(points, key=lambda point: (point.name, point.value))


def _package(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else ""


def _load(point: importlib.metadata.EntryPoint, group: str, registry: _Registry) -> None:
    def refuse(reason: str) -> None:
        whose = f"the plugin {_package(point) or point.value}, {group.removesuffix('s')} {point.name!r}"
        warnings.warn(f"{whose}: {reason}", PluginWarning, stacklevel=4)

    if point.name in registry.built_in:
        refuse("the package has one of this name; the plugin's is not used")
        return
    try:
        kind = point.load()
    except Exception as error:  # of any kind: the code is not ours
        refuse(f"{type(error).__name__}: {error}; update or uninstall it")
        return
    classes = isinstance(kind, type)
    if not (issubclass(kind, registry.base) if classes else isinstance(kind, registry.base)):
        refuse(f"{point.value} is not a {registry.base.__name__}")
        return
    registry.kinds.setdefault(point.name, kind)  # an assignment by a module that was imported before wins
    _sources[group, point.name] = Need(group, point.name, point.module, _package(point))


def _import(name: str) -> None:
    if name.endswith(".py") or not MODULE.fullmatch(name):
        hint = name.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise ValueError(f"--import takes the name of a module, such as {hint or 'my_module'}, got {name!r}")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(
                f"cannot import {name}: there is no module {error.name} here or among the installed packages"
            ) from error
        raise ValueError(f"cannot import {name}: it needs {error.name}, which is not installed") from error
    except Exception as error:  # of any kind: the code is not ours
        raise ValueError(f"cannot import {name}: {type(error).__name__}: {error}") from error


def _module_of(kind: Any) -> str:
    module = (kind if isinstance(kind, type) else type(kind)).__module__
    return "" if module in ("__main__", "__mp_main__") else module
