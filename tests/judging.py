"""What figures claim about rows that tests have made."""

from equilibria.reproduction import FIGURES


def verdicts(figure: str, rows: list[dict]) -> list[str]:
    """Of its claims, in their order."""
    return [str(claim.verdict) for claim in FIGURES[figure].claims(rows)]
