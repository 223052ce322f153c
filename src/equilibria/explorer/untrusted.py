"""What requests and folders of runs say may be anything: is it a number, and does it lie where it should?"""

import math
from pathlib import Path
from typing import Any


def is_number(value: Any) -> bool:
    """Whether something read from JSON is a number that can be computed with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def lies_in(path: Path, root: Path) -> bool:
    """Whether a file lies in a folder, wherever links in its name lead; both as `resolve` gives them."""
    try:
        return root in path.resolve().parents
    except (OSError, ValueError, RuntimeError):  # names that cannot be, links that lead to themselves
        return False
