"""Limits of a request, and checks of data that anybody may have written."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

MAX_STEPS = 2000  # of one solve
MAX_RESTARTS = 10  # solves that start from the limits of other inputs (paper, Algorithm 1)
MAX_NOISES = 4  # solves that start from noise
MAX_FLIPS = 20_000  # edited places of one input
MAX_REQUEST_BYTES = 200_000
MAX_STREAMS_PER_PAGE = 8
MAX_STREAMS = 96  # of all pages together
MAX_NOISE_SCALE = 1e3
MAX_SEED = 2**31 - 1
MAX_REASON = 1000  # characters of an error message


class Refused(Exception):
    """A request that is not carried out: an HTTP status, and a reason for people."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, printable(reason)

    def data(self) -> dict[str, object]:
        """The JSON that pages and scripts receive."""
        return {"status": self.status, "reason": self.reason}


def limited(default: Any, least: float, most: float) -> Any:
    """A field of a `Limited` dataclass whose value must be from `least` to `most`."""
    return dataclasses.field(default=default, metadata={"limits": (least, most)})


class Limited:
    """Base of dataclasses that check their `limited` fields."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # pyright: ignore[reportArgumentType]
            least, most = field.metadata.get("limits", (-math.inf, math.inf))
            value = getattr(self, field.name)
            if "limits" in field.metadata and not least <= value <= most:
                raise Refused(422, f"{field.name} must be from {least:g} to {most:.10g}, got {value!r}")


def is_number(value: Any) -> bool:
    """Whether a value read from JSON is a finite number."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def is_inside(path: Path, root: Path) -> bool:
    """Whether a file lies in a resolved folder, after following every link in its path."""
    try:
        return root in path.resolve().parents
    except (OSError, ValueError, RuntimeError):  # impossible names, circular links
        return False


def require_json(data: Any) -> None:
    """Raise unless `data` can be sent as JSON: no NaN, and no text that is not valid Unicode."""
    json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


def printable(text: str) -> str:
    """`text` as valid Unicode of limited length."""
    return text[:MAX_REASON].encode(errors="backslashreplace").decode()
