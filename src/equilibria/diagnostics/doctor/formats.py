"""How numbers are written in a report."""

import math

from equilibria.diagnostics.doctor.diagnosis import AlignmentRow, UncertaintyRow


def number(value: float | None) -> str:
    """Three significant digits, or "-" for a missing number."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.3g}"


def interval(row: AlignmentRow | UncertaintyRow) -> str:
    """The 95 % interval of a row, or "-" if it has none."""
    return f"{number(row.low)} to {number(row.high)}" if math.isfinite(row.low) else "-"
