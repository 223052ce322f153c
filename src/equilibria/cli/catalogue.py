"""What `equilibria list` shows of the library. `make numbers` writes it to catalogue.json, so that listing is quick."""

from collections.abc import Mapping
from typing import Any

from equilibria.plugins import need_of
from equilibria.training import RECIPES
from equilibria.training.recipe import KINDS

MINUTES = ("training_minutes", "measuring_minutes")


def catalogue(minutes: Mapping[str, Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows by what they list. `minutes` has the columns MINUTES of the recipes whose nets were timed, by recipe."""
    rows: dict[str, list[dict[str, Any]]] = {
        "recipes": [
            {
                "name": name,
                "id": recipe.id,
                "steps": recipe.optim.steps,
                **{column: minutes.get(name, {}).get(column) for column in MINUTES},
                "source": recipe.source,
            }
            for name, recipe in RECIPES.items()
        ]
    }
    for kind, members in KINDS.items():
        rows[f"{kind.__name__.lower()}s"] = [
            {"name": name, "class": one.__name__, "what": _what(members, name, one)} for name, one in members.items()
        ]
    return rows


def _what(members: Mapping[str, type], name: str, kind: type) -> str:
    need = need_of(members, name)
    sentence = (kind.__doc__ or "").strip().split("\n")[0]
    return f"{sentence} (from {need.package or need.module or 'a script'})" if need else sentence
