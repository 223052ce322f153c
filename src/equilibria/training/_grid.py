"""Derive many recipes from one: every combination of values for some of its fields."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from equilibria.training.recipe import Recipe

RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def grid(base: Recipe, axes: Mapping[str, Sequence[Any]]) -> list[Recipe]:
    """Return `base` with every combination of these values, the last axis changing fastest, without duplicates."""
    for name, values in axes.items():
        if not values:
            raise ValueError(f"the axis {name} has no values; write for example {name}=1,2 or remove it")
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
        return json.loads(word)
    except ValueError:
        return word  # a name, for example of a solver
