"""The figures of digits, matrices and graphs: claims on rows whose truth is known."""

import pytest
from judging import verdicts
from matplotlib.backends.backend_agg import FigureCanvasAgg

from equilibria.reproduction import FIGURES
from equilibria.reproduction.figures._error_by_alignment import ErrorByAlignment


@pytest.mark.parametrize("name", ["blurry_mnist", "matrix_inversion", "edge_copy"])
def test_error_falls_with_alignment(name):
    figure = FIGURES[name]
    assert isinstance(figure, ErrorByAlignment)

    learned = 1.0 if name == "blurry_mnist" else 0.0

    def rows(sign, training=learned):
        return [
            {
                "category": ("unroll", "solver", "implicit")[i % 3],
                "label": f"net {i}",
                "net": str(i),
                "difficulty": difficulty,
                "alignment": 0.3 + 0.03 * i,
                "centred": -0.03 * i,
                "aggregate": "add",
                "score": 0.5 + sign * 0.01 * i if budget == "large" else training,
                "constant": 0.6,
                "budget": budget,
                "steps": 8,
            }
            for i in range(18)
            for difficulty in figure.difficulties
            for budget in ("large", "training")
        ]

    better = 1 if name == "blurry_mnist" else -1
    assert verdicts(name, rows(better))[:2] == ["holds", "does not hold"]  # centred AA goes the other way here
    assert verdicts(name, rows(-better))[:2] == ["does not hold", "holds"]
    assert verdicts(name, rows(better, training=0.6))[:2] == ["inconclusive"] * 2  # no better than a constant
    FigureCanvasAgg(figure.draw(rows(better))).draw()
    points = figure.points(rows(better))
    assert [point["x"] for point in points.points] == pytest.approx([0.3 + 0.03 * i for i in range(18)])


def test_nets_that_diverge_have_the_largest_error():
    rows = [
        {"category": "unroll", "label": f"net {i}", "net": str(i), "aggregate": "add", "difficulty": difficulty}
        | {"budget": "large", "constant": 0.3, "alignment": 0.99 - 0.01 * i, "centred": 0.5, "score": 1e-3 * i}
        | ({"alignment": None, "centred": None, "score": None, "diverged": 5} if i > 9 else {"diverged": 0})
        for i in range(12)
        for difficulty in (10, 15)
    ]
    first, *_ = FIGURES["edge_copy"].claims(rows)
    assert first.value == pytest.approx(-1.0)
    FigureCanvasAgg(FIGURES["edge_copy"].draw(rows)).draw()
    points = FIGURES["edge_copy"].points(rows)
    assert points is not None
    assert len(points.points) == 10


def test_alignments_that_differ_by_rounding_are_inconclusive():
    rows = [
        {"category": "unroll", "label": f"net {i}", "net": str(i), "difficulty": difficulty, "budget": "large"}
        | {"alignment": 1 - 1e-7 * i, "centred": 1.0, "score": 0.1 + i, "constant": 0.6}
        for i in range(18)
        for difficulty in (0.5, 0.1)
    ]
    assert verdicts("matrix_inversion", rows)[:2] == ["inconclusive"] * 2


def test_whether_digits_are_learned_is_judged_by_the_steps_of_the_training():
    def verdict(learned, after):
        rows = [
            {
                "category": "unroll",
                "label": f"net {i}",
                "net": str(i),
                "difficulty": 2.0,
                "alignment": 1.0,
                "centred": 1.0,
            }
            | {"constant": 0.1, "budget": budget, "score": score, "steps": 8}
            for i in range(18)
            for budget, score in (("training", learned), ("large", after))
        ]
        return verdicts("blurry_mnist", rows + [row | {"difficulty": 5.0} for row in rows if row["budget"] == "large"])[
            2
        ]

    assert verdict(0.97, 0.3) == "holds"
    assert verdict(0.9, 0.97) == "does not hold"
