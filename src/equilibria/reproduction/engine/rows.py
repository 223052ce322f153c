"""Rows: the plain data that measures return, what each column contains, and how figures select from them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

Row = dict[str, Any]  # plain data: one measurement of one net


class Kind(StrEnum):
    """What a column contains. It decides how the column is compared."""

    SETTING = "setting"  # given by the measure; must be equal
    SHARE = "share"  # mean score over examples, or a mean error if the task scores errors
    ALIGNMENT = "alignment"  # mean agreement over examples, at most 1
    COUNT = "count"  # of examples
    RESIDUAL = "residual"  # only its order of magnitude counts
    DISTANCE = "distance"  # the same
    EFFORT = "effort"  # of a search, which may end early; the same
    NUMBER = "number"  # anything else, compared relative to its size
    BEST_STEPS = "best steps"  # the first of the step counts with the best score
    STATUS = "status"  # how the solve of each example ended
    ROUNDING_ERROR = "rounding error"  # not compared: it makes the tolerances


class Field(NamedTuple):
    """What a measure declares about one column of its rows.

    Args:
        error: the key in `rounding_error` that applies to this column. Defaults to the column's own name.
        of: the column with the number of examples behind this one.
    """

    kind: Kind
    error: str = ""
    of: str = "examples"


Fields = Mapping[str, Field]


def settings(*names: str) -> dict[str, Field]:
    """Declare columns that repeat the settings of a measure."""
    return dict.fromkeys(names, Field(Kind.SETTING))


def select(rows: Sequence[Row], **columns: Any) -> list[Row]:
    """Return the rows with these values; a tuple allows each of its values."""

    def fits(row: Row) -> bool:
        return all(
            row.get(name) in value if isinstance(value, tuple) else row.get(name) == value
            for name, value in columns.items()
        )

    return [row for row in rows if fits(row)]


def values(rows: Sequence[Row], name: str) -> list[float]:
    """Return one column; what was not measured is NaN."""
    return numbers([row.get(name) for row in rows])


def numbers(column: Sequence[float | None]) -> list[float]:
    """Replace None, which stands for a missing number in JSON, by NaN."""
    return [math.nan if one is None else one for one in column]


def group_by(rows: Sequence[Row], name: str) -> Iterator[tuple[Any, list[Row]]]:
    """Group rows by a column, in the order in which its values first appear."""
    for value in dict.fromkeys(row[name] for row in rows):
        yield value, select(rows, **{name: value})
