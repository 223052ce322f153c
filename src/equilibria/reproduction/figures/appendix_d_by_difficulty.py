"""Appendix D: Figure 4 at each length, with the training budget and with a large budget."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import Claim, correlation_gain, difference, judge, mean
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points
from equilibria.reproduction.engine.rows import Row, select
from equilibria.reproduction.figures._nets_as_points import accuracy_rises, as_points, averaged, fitting
from equilibria.reproduction.figures._prefix_sums import (
    LENGTHS,
    LONGER,
    at_both_budgets,
    both_budgets,
    grid_of_nets,
    with_fits,
)
from equilibria.reproduction.figures.figure4_correlation import LABELS
from equilibria.reproduction.nets import WAYS
from equilibria.reproduction.scales import Scale

POOR = 0.2  # of whole strings: no more than this is called very poor
INDEPENDENT = 0.9  # AA with the large budget, from which a net counts as path independent
LOSS = 0.01  # of the bits: less is no loss


class ByDifficulty(Figure):
    """Accuracy against AA at each length."""

    name = "by_difficulty"
    places = (Place(Part.APPENDIX, "D"),)
    title = "The correlation at each length, with the training budget and with a large budget"
    setup = (
        "The prefix-sum nets of Figure 4 at each length: on the left the solver and the steps of their training, on "
        "the right 512 Anderson steps."
    )
    caption = "Paper: the correlation is more apparent with a very large budget, and persists at all lengths."

    def plan(self, scale: Scale) -> Plan:
        return at_both_budgets(scale, *WAYS)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        return grid_of_nets(rows, LABELS)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        every = with_fits(rows)
        rows = fitting(every)
        aligned, right = (both_budgets(rows, name) for name in ("alignment", "partial_score"))
        strings = both_budgets(rows, "score", difficulty=LONGER)
        kept = [i for i, score in enumerate(aligned.large) if score >= INDEPENDENT]
        return [
            *(
                accuracy_rises(
                    f"accuracy_rises_{length}",
                    f"with the large budget accuracy rises with path independence at {length} bits",
                    select(every, difficulty=length, budget="large"),
                    above=0.0,
                    paper="persists for all lengths",
                )
                for length in LENGTHS
            ),
            judge(
                "correlation_is_clearer_at_large_budget",
                "the correlation is clearer with the large budget than with the training budget",
                correlation_gain(aligned.large, right.large, aligned.training, right.training, right.families),
                above=0.0,
                what="the rank correlation over nets, at all lengths together, grows by {}",
                paper="more apparent",
            ),
            judge(
                "poor_at_training_budget",
                "with the training budget all nets do very poorly on strings longer than in training",
                mean(strings.training, strings.families),
                below=POOR,
                what="{} of the strings are correct, on average over families of nets",
                paper="very poorly",
            ),
            judge(
                "independent_nets_lose_nothing",
                f"nets that are path independent (AA of at least {INDEPENDENT}) lose nothing with the large budget",
                difference(*right.only(kept)),
                above=-LOSS,
                what="the share of correct bits changes by {}",
                paper="that does not happen",
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        nets = averaged(select(rows, budget="large", difficulty=LONGER), "alignment", "partial_score")
        return Points("AA score, longer strings", "share of correct bits", as_points(nets))
