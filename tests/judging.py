"""The verdicts of figures on artificial rows."""

from itertools import product

import numpy as np

from equilibria.reproduction import FIGURES

LENGTHS = (16, 32, 64, 128, 256)


def verdicts(figure: str, rows: list[dict]) -> list[str]:
    """Return the verdicts of a figure in the order of its claims."""
    return [str(claim.verdict) for claim in FIGURES[figure].claims(rows)]


# Rows of nets that never were: twelve of each category, as many as in the paper.


def nets(category, alignment, accuracy, count=12, **fields):
    """Rows of nets at every length and both budgets; `alignment` and `accuracy` are functions of number and budget."""
    return [
        {
            "category": category,
            "label": "a net",
            "depth": 6 + 26 * (i % 2),
            "weight_norm": i % 4 > 1,
            "norm": "group",
            "rate": 1e-3 * i,
            "seed": 0,
            "penalty": 0.1 * (12 - i) if category == "penalty" else 0.0,
            "net": f"{category} {i}",
            "fits": True,
            "task": "PrefixSum",
            "measure": "Profile",
            "difficulty": length,
            "budget": budget,
            "steps": 512 if budget == "large" else 6 + 26 * (i % 2),
            "alignment": alignment(i, budget),
            "partial_score": accuracy(i, budget),
            "score": accuracy(i, budget) if budget == "large" else 0.0,
        }
        | {name: value(i) for name, value in fields.items()}
        for i, length, budget in product(range(count), LENGTHS, ("large", "training"))
    ]


def rising(i, budget="large"):
    return 0.5 + 0.04 * i


def noise(seed):
    drawn = np.random.default_rng(seed).permutation(12)
    return lambda i, budget="large": 0.5 + 0.04 * drawn[i % 12]
