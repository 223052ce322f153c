"""What studies say about rows that tests have made."""

from equilibria.reproduction import STUDIES


def verdicts(study: str, rows: list[dict]) -> list[str]:
    """Of its claims, in their order."""
    return [str(claim.verdict) for claim in STUDIES[study].claims(rows)]
