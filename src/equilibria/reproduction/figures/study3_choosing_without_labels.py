"""A study of our own: choosing among trained nets without labels of harder problems."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing
from scipy.special import comb

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, in_words, judge, resampled
from equilibria.reproduction.engine.drawing import COLOURS, figure
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan
from equilibria.reproduction.engine.rows import Row, select
from equilibria.reproduction.figures._nets_as_points import fitting
from equilibria.reproduction.figures.figure2_ood_mazes import GET_WORSE, TRAINED_ON, at_large_budget, with_fits
from equilibria.reproduction.maze_nets import TIED
from equilibria.reproduction.scales import Scale

SIZE = 25  # the mazes that the chosen net is for
CANDIDATES = tuple(category for category in TIED if category not in GET_WORSE)
DIGITS = 3  # of AA; smaller differences are noise
AMONG = (2, 3, 5, 8, 12)  # nets that one is chosen from
JUDGED = 5  # of them, in the claims
RULES = {
    "oracle": f"most {SIZE}x{SIZE} mazes solved (needs labels)",
    "alignment": f"highest AA at {SIZE}x{SIZE} (no labels)",
    "settled": f"most {SIZE}x{SIZE} mazes settled (no labels)",
    "trained": f"most {TRAINED_ON}x{TRAINED_ON} mazes solved",
    "chance": "at random",
}


class ChoosingWithoutLabels(Figure):
    """The accuracy of the net that each rule chooses."""

    name = "choosing_without_labels"
    places = (Place(Part.STUDY, 3),)
    title = "Choosing a net without labels of harder problems"
    setup = (
        f"A study of our own, with the deep maze nets of Figure 4 that are weight-tied and injected and solve "
        f"{TRAINED_ON}x{TRAINED_ON} mazes. (The number of steps of shallow nets is chosen with labels, so they do not "
        f"take part.) From random sets of nets, one is chosen by each rule: by its accuracy at the training size, by "
        f"its AA score or by the share of settled solves on {SIZE}x{SIZE} mazes, which needs no labels, or by its "
        f"accuracy there. Shown is the expected share of {SIZE}x{SIZE} mazes that the chosen net solves. Ties are "
        f"broken at random."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, CANDIDATES, TRAINED_ON, SIZE)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((axis,),) = figure(width=6.0, height=4.0)
        nets = _nets(rows)
        among = [count for count in AMONG if count <= len(nets)]
        for i, (rule, label) in enumerate(RULES.items()):
            heights = [_chosen(nets, rule, count) for count in among]
            axis.plot(among, heights, "o-", ms=4, color=COLOURS[i], label=label)
        axis.set_xlabel("nets to choose from")
        axis.set_ylabel(f"{SIZE}x{SIZE} mazes solved by the chosen net")
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = _nets(rows)
        gain, gap = _gain(nets, "alignment", "trained"), _gain(nets, "oracle", "alignment")
        return [
            judge(
                "aa_chooses_better_than_training_accuracy",
                f"among {JUDGED} nets, AA without labels chooses a better net than accuracy at the training size",
                gain,
                above=0.0,
                what=f"the share of solved {SIZE}x{SIZE} mazes is higher by {{}}, over families of nets",
                source=Source.OURS,
                added_late=True,
                remark=f"With labels it would be higher by another {in_words(gap)}.",
            )
        ]


def _nets(rows: Sequence[Row]) -> list[Row]:
    """One row per net that fits its training data, with the numbers that the rules use."""
    rows = fitting(with_fits(rows))
    trained = {row["net"]: row["score"] for row in select(rows, difficulty=TRAINED_ON)}
    return [
        {
            "family": row["family"],
            "oracle": row["score"],
            "alignment": -1.0 if row["alignment"] is None else round(row["alignment"], DIGITS),
            "settled": (row["converged"] + row["cycling"]) / row["examples"],
            "trained": trained[row["net"]],
            "chance": 0.0,
        }
        for row in select(rows, difficulty=SIZE)
    ]


def expected_accuracy(rule: np.ndarray, accuracy: np.ndarray, among: int) -> float:
    """Return the expected accuracy of the net with the highest `rule` in a random set of `among` nets, (nets,) each.

    It is NaN if there are fewer nets.

    Of n nets, the one at rank i (from 0) is the highest of k with probability C(n - 1 - i, k - 1) / C(n, k). Nets with
    equal values share their ranks.
    """
    if len(rule) < among:
        return np.nan
    _, group = np.unique(-rule, return_inverse=True)  # the highest first
    shared = np.bincount(group, accuracy) / np.bincount(group)  # (values,)
    ranks = np.arange(len(rule))
    weights = comb(len(rule) - 1 - ranks, among - 1) / comb(len(rule), among)
    return float(weights @ shared[np.sort(group)])


def _chosen(nets: Sequence[Row], rule: str, among: int) -> float:
    by, accuracy = (np.array([net[name] for net in nets]) for name in (rule, "oracle"))
    return expected_accuracy(by, accuracy, among)


def _gain(nets: Sequence[Row], rule: str, other: str) -> Estimate:
    """What one rule gains over another, resampling families of nets."""

    def difference(units: np.ndarray) -> np.ndarray:
        """(..., nets, 3): the two rules and the accuracy."""
        flat = units.reshape(-1, *units.shape[-2:])
        found = [
            expected_accuracy(one[:, 0], one[:, 2], JUDGED) - expected_accuracy(one[:, 1], one[:, 2], JUDGED)
            for one in flat
        ]
        return np.array(found).reshape(units.shape[:-2])

    return resampled(difference, [[net[rule], net[other], net["oracle"]] for net in nets], [n["family"] for n in nets])
