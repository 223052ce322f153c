"""The verdicts of figures on artificial rows."""

from equilibria.reproduction import FIGURES


def verdicts(figure: str, rows: list[dict]) -> list[str]:
    """Return the verdicts of a figure in the order of its claims."""
    return [str(claim.verdict) for claim in FIGURES[figure].claims(rows)]
