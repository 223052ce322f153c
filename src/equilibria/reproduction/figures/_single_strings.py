"""Results on single strings, for Figure 5 and Appendix F."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from equilibria.core.solution import Status
from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import in_words
from equilibria.reproduction.engine.rows import Row, select
from equilibria.reproduction.figures._nets_as_points import fitting

WORST = -1.0  # the AA score of an example that has none because it diverged


class SolvedString(NamedTuple):
    """One string under one net."""

    alignment: float  # WORST if its solves diverged
    right: bool  # every bit of it
    last_step: float  # the distance between the last two states; infinite if the solve diverged
    status: Status


def solved_strings(rows: Sequence[Row]) -> list[SolvedString]:
    """Return the single strings of rows that keep them."""
    columns = ("alignment_each", "right", "last_step_each", "status_each")
    return [
        SolvedString(
            WORST if alignment is None else alignment, right, math.inf if last is None else last, Status(status)
        )
        for row in rows
        for alignment, right, last, status in zip(*(row[name] for name in columns), strict=True)
    ]


def trained_depths(rows: Sequence[Row]) -> list[int]:
    """Return the depths at which nets were trained."""
    return sorted({row["trained_at"] for row in rows})


def of_other_nets(rows: Sequence[Row], estimate: Callable[[Sequence[Row]], Estimate]) -> str:
    """Describe an estimate for the fitting nets of each depth, and for all nets if some do not fit."""
    known = fitting(rows)
    depths = trained_depths(known)
    found = [
        f"Nets trained with {depth} steps alone: {in_words(estimate(select(known, trained_at=depth)))}."
        for depth in depths
        if len(depths) > 1
    ]
    if len(known) < len(rows):
        found.append(f"All nets, fitting or not: {in_words(estimate(rows))}.")
    return " ".join(found)


def of_all_depths(rows: Sequence[Row], depth: int, estimate: Callable[[Sequence[Row]], Estimate]) -> str:
    """Describe an estimate over the nets of all depths, and over all nets of one depth if some do not fit."""
    same, known = select(rows, trained_at=depth), fitting(rows)
    found = [f"Over nets of all depths together: {in_words(estimate(known))}."] * (len(trained_depths(known)) > 1)
    if len(fitting(same)) < len(same):
        found.append(f"All nets of this depth, fitting or not: {in_words(estimate(same))}.")
    return " ".join(found)
