"""Flags that exchange a part of a recipe: they decide which other flags there are, so they are read first."""

from typing import Any

from equilibria.training import Recipe
from equilibria.training.recipe import KINDS

POINTS = {"evaluation.at": 2, "evaluation.finally_at": 4}  # numbers per point; they must fit an exchanged task


def exchanged(recipe: Recipe, arguments: list[str]) -> tuple[Recipe, list[str]]:
    """Exchange the parts whose kind the arguments name; those arguments are used up, the rest is returned."""
    flags = _flags(arguments)
    if recipe.pretraining is None and any(path.startswith("pretraining.") for path in flags):
        recipe = recipe.override({"pretraining": {"steps": max(1, recipe.optim.steps // 2)}})
    changes: dict[str, Any] = {}
    for path in sorted(flags, key=lambda path: path.count(".")):  # a part before the parts inside it
        if path in POINTS and "task" in flags:
            numbers, size = list(map(_number, flags[path])), POINTS[path]
            changes[path] = [numbers[i : i + size] for i in range(0, len(numbers), size)]
        elif path in ("extras", "pretraining") or _is_part(recipe, changes, path):
            changes[path] = _kinds(path, flags[path])
    return (recipe.override(changes) if changes else recipe), _without(arguments, changes)


def _flags(arguments: list[str]) -> dict[str, list[str]]:
    """Dotted names and the words that follow each."""
    flags: dict[str, list[str]] = {}
    values: list[str] = []
    for word in arguments:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            values = flags.setdefault(_path(name), [])
            values += [value] if equals else []
        else:
            values.append(word)
    return flags


def _without(arguments: list[str], used: dict[str, Any]) -> list[str]:
    rest, skipping = [], False
    for word in arguments:
        if word.startswith("--"):
            skipping = _path(word.partition("=")[0]) in used
        if not skipping:
            rest.append(word)
    return rest


def _path(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _is_part(recipe: Recipe, changes: dict[str, Any], path: str) -> bool:
    """Whether a part is there, in the recipe or in what it is being exchanged for."""
    parents = {name: value for name, value in changes.items() if name not in POINTS and name != "task"}
    part: Any = recipe.override(parents) if parents else recipe
    for name in path.split("."):
        part = getattr(part, name, None)
    return isinstance(part, tuple(KINDS))


def _kinds(path: str, values: list[str]) -> Any:
    if len(values) != 1:
        raise ValueError(f"--{path} takes the name of one kind, got {' '.join(values) or 'nothing'}")
    (value,) = values
    if path == "extras":
        return [] if value == "none" else value.split(",")
    if path == "pretraining":
        if value != "none":
            raise ValueError(f"--pretraining can be 'none', got {value!r}; to have it, set --pretraining.steps")
        return None
    return value


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)
