"""The recipe and the kinds of its parts in the arguments of `train`.

They decide which other flags exist, so they are read before tyro reads the rest.
"""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from equilibria.cli.failures import UsageError
from equilibria.io.describe import nearest
from equilibria.plugins import load_plugins
from equilibria.training import RECIPES, Recipe, Run
from equilibria.training.recipe import KINDS

POINTS = {"evaluation.at": 2, "evaluation.finally_at": 4}  # numbers per point; they must fit a new task
TEXT_FLAGS = ("--out", "--name", "--source")  # their values may look like recipes


def find_recipe(name: str) -> tuple[Recipe, Path | None]:
    """Return a recipe of the library, of a JSON file, or of a run folder, and that folder."""
    if name not in RECIPES:
        load_plugins()
    if name in RECIPES:
        return RECIPES[name], None
    path = Path(name)
    if (path / "recipe.json").is_file():
        return Run(path).recipe, path
    if path.is_file():
        return Recipe.load(path), None
    looks_like_a_path = path.suffix == ".json" or name.count(os.sep) > 1
    reason = "no such file or run folder" if looks_like_a_path else nearest(name, list(RECIPES))
    others = {known.partition("/")[0] for known in RECIPES}
    if not looks_like_a_path and "/" in name and not get_close_matches(name.partition("/")[0], others):
        reason = "if it is in a module of your own, pass --import MODULE; see: equilibria list recipes"
    raise UsageError(f"there is no recipe {name!r}; {reason}")


def recipe_first(arguments: list[str]) -> list[str] | None:
    """Move the recipe to the front of the arguments of `train`; None if there is none."""
    places = [
        i
        for i, word in enumerate(arguments)
        if not word.startswith("-") and not (i and arguments[i - 1] in TEXT_FLAGS) and (not i or _is_recipe(word))
    ]
    return [arguments[places[0]], *arguments[: places[0]], *arguments[places[0] + 1 :]] if places else None


def replace_parts(recipe: Recipe, arguments: list[str]) -> tuple[Recipe, list[str]]:
    """Replace the parts whose kind the arguments name; return the recipe and the remaining arguments."""
    groups = split_flags(arguments)
    flags: dict[str, list[str]] = {}
    for path, (flag, *words) in groups:
        flags.setdefault(path, []).extend([flag.partition("=")[2], *words] if "=" in flag else words)
    if recipe.pretraining is None and any(path.startswith("pretraining.") for path in flags):
        recipe = recipe.override({"pretraining": {"steps": max(1, recipe.optim.steps // 2)}})
    changes: dict[str, Any] = {}
    for path in sorted(flags, key=lambda path: path.count(".")):  # a part before the parts inside it
        if path in POINTS and "task" in flags:
            numbers, size = list(map(_number, flags[path])), POINTS[path]
            changes[path] = [numbers[i : i + size] for i in range(0, len(numbers), size)]
        elif path in ("extras", "pretraining") or _is_part(recipe, changes, path):
            changes[path] = _kinds(path, flags[path])
    rest = [word for path, words in groups if path not in changes for word in words]
    return (recipe.override(changes) if changes else recipe), rest


def _is_recipe(word: str) -> bool:
    load_plugins()
    return word in RECIPES or Path(word).is_file() or (Path(word) / "recipe.json").is_file()


def split_flags(arguments: list[str]) -> list[tuple[str, list[str]]]:
    """Split arguments before every flag; return the dotted name of each flag with its words, the flag included."""
    groups: list[tuple[str, list[str]]] = []
    for word in arguments:
        if word.startswith("--") or not groups:
            groups.append((word.partition("=")[0].removeprefix("--").replace("-", "_"), []))
        groups[-1][1].append(word)
    return groups


def _is_part(recipe: Recipe, changes: dict[str, Any], path: str) -> bool:
    """Whether the recipe, or a part that replaces one of its parts, has a part at this path."""
    parents = {name: value for name, value in changes.items() if name not in POINTS and name != "task"}
    part: Any = recipe.override(parents) if parents else recipe
    for name in path.split("."):
        part = getattr(part, name, None)
    return isinstance(part, tuple(KINDS))


def _kinds(path: str, values: list[str]) -> Any:
    if len(values) != 1:
        raise UsageError(f"--{path} takes the name of one kind, got {' '.join(values) or 'nothing'}")
    (value,) = values
    if path == "extras":
        return [] if value == "none" else value.split(",")
    if path == "pretraining":
        if value != "none":
            raise UsageError(f"--pretraining can only be 'none', got {value!r}; to add one, set --pretraining.steps")
        return None
    return value


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)
