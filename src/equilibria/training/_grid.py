"""Derive many recipes from one: every combination of values for some of its fields."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from equilibria.io.files import parse_json
from equilibria.training.recipe import Recipe

RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
MOST_RECIPES = 100_000  # of a grid


def grid(base: Recipe, axes: Mapping[str, Sequence[Any]]) -> list[Recipe]:
    """Return `base` with every combination of these values, the last axis changing fastest, without duplicates."""
    for name, values in axes.items():
        if not values:
            raise ValueError(f"the axis {name} has no values; write for example {name}=1,2 or remove it")
    count = math.prod(len(values) for values in axes.values())
    if count > MOST_RECIPES:
        raise ValueError(f"the grid has {count:,} combinations; at most {MOST_RECIPES:,} are allowed")
    combinations = itertools.product(*axes.values())
    made = [base.override(dict(zip(axes, values, strict=True))) for values in combinations]
    return list({recipe.id: recipe for recipe in made}.values())


def parse_axis(text: str) -> tuple[str, list[Any]]:
    """Parse `optim.lr=1e-3,3e-4`, `seed=0..9` or `net.weight_norm=true,false` into a name and values."""
    name, equals, values = text.partition("=")
    if not equals or not name or not values:
        raise ValueError(f"cannot read the axis {text!r}; write name=value,value or name=first..last")
    found = RANGE.fullmatch(values)
    if found:
        first, last = int(found[1]), int(found[2])
        if last - first >= MOST_RECIPES:
            raise ValueError(f"the axis {name} has {last - first + 1:,} values; at most {MOST_RECIPES:,} are allowed")
        return name.replace("-", "_"), list(range(first, last + 1))
    return name.replace("-", "_"), [_value(word) for word in _split(values)]


def _split(values: str) -> list[str]:
    """Split at commas that are not inside brackets."""
    words, depth = [""], 0
    for letter in values:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return words


def _value(word: str) -> Any:
    try:
        return parse_json(word, word, object)
    except ValueError:
        return word  # a name, for example of a solver
