"""Figure 2, right: path-independent nets get better with more iterations."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FormatStrFormatter

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, difference, in_words, judge, mean, rank_correlation
from equilibria.reproduction.engine.drawing import COLOURS, figure
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._nets_as_points import averaged
from equilibria.reproduction.figures._prefix_sums import at_both_budgets, with_fits
from equilibria.reproduction.measures.accuracy_curve import AccuracyCurve
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category, string_nets
from equilibria.reproduction.scales import Scale

LENGTHS = (16, 32, 64, 128)
EXAMPLES = 128  # of each length, at most
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512)
HIGH = 0.9  # AA from which a net counts as path independent
SHADES = ListedColormap(colormaps["viridis"](np.linspace(0, 0.9, 256)))  # the rest is too pale for lines
LOSS = 0.01  # of the bits: smaller losses do not count


class NetCurve(NamedTuple):
    """A net with its accuracy after each number of steps."""

    net: str
    label: str
    alignment: float
    trained_at: int
    at: list[int]
    right: np.ndarray  # (steps,) the share of correct bits
    family: str
    fits: bool = True  # its training data

    @property
    def then(self) -> float:
        """The share of correct bits at the training depth."""
        return float(np.interp(self.trained_at, self.at, self.right))

    @property
    def last(self) -> float:
        """The share of correct bits after the largest number of steps."""
        return float(self.right[-1])

    @property
    def fall(self) -> float:
        """The largest fall from an earlier value, past the training depth."""
        past = self.right[np.asarray(self.at) >= self.trained_at]
        return float((np.maximum.accumulate(past) - past).max()) if len(past) else 0.0


class MoreIterations(Figure):
    """Accuracy by the number of steps."""

    name = "more_iterations"
    places = (Place(Part.FIGURE, 2, "right"),)
    title = "Path-independent nets improve with more iterations"
    setup = (
        "Prefix sums: unrolled nets of two depths, with and without weight norm, at several rates; the share of "
        "correct bits after up to 512 fixed point iterations, averaged over 16, 32, 64 and 128 bits; AA as in "
        "Figure 4. Thin lines with open dots: nets that do not fit their training data, which no claim counts."
    )
    caption = "Paper: path independent nets are better able to make use of additional test-time computation."

    def plan(self, scale: Scale) -> Plan:
        most = max(scale.trial.steps, 2)
        steps = tuple(step for step in STEPS if step <= most)
        curve = AccuracyCurve(LENGTHS, min(EXAMPLES, scale.trial.strings), steps)
        return plan_all(string_nets(scale, Category.UNROLL), curve) + at_both_budgets(scale, Category.UNROLL)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((axis,),) = figure(width=6.0, height=4.2)
        nets = sorted(_nets(rows), key=lambda net: net.alignment)
        shades, limits = SHADES, Normalize(0, 1)
        styles = dict(zip(sorted({net.trained_at for net in nets}), ("--", "-"), strict=False))
        for net in nets:
            shade, style = shades(limits(net.alignment)), styles.get(net.trained_at, ":")
            axis.plot(net.at, net.right, color=shade, ls=style, lw=1.4 if net.fits else 0.6)
            axis.plot(net.trained_at, net.then, "o", color=shade, ms=4, mfc=shade if net.fits else "white")
        for depth, style in styles.items():
            axis.plot([], [], color=COLOURS[6], ls=style, marker="o", ms=4, label=f"trained with {depth} steps (dot)")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(FormatStrFormatter("%d"))
        axis.set_xlabel("fixed point iterations")
        axis.set_ylabel("correct bits, 16 to 128 bits long")
        axis.legend(fontsize=7, loc="upper left", handlelength=5)
        drawn.colorbar(ScalarMappable(limits, shades), ax=axis, label="AA score")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = [net for net in _nets(rows) if net.fits]
        high = [net for net in nets if net.alignment >= HIGH]
        low = [net for net in nets if net.alignment < HIGH]
        changes = "the share of correct bits changes by {} from the training depth to the largest number of steps"
        return [
            judge(
                "high_aa_does_not_get_worse",
                f"nets with high AA (at least {HIGH}) do not get worse past their training depth",
                _gain(high),
                above=-LOSS,
                what=changes,
            ),
            judge(
                "high_aa_never_falls",
                f"the accuracy of nets with high AA (at least {HIGH}) never falls",
                mean([net.fall for net in high], [net.family for net in high]),
                below=LOSS,
                what="the largest fall of the share of correct bits is {}, on average over families of nets",
                paper="monotone",
            ),
            judge(
                "low_aa_gets_worse",
                f"nets with low AA (below {HIGH}) get worse past their training depth",
                _gain(low),
                below=-LOSS,
                what=changes,
                paper="falls past the training depth",
            ),
            judge(
                "gain_rises_with_aa",
                "the more path independent a net, the more it gains from steps beyond its training depth",
                _rising(nets),
                above=0.0,
                what="rank correlation {} over nets",
                source=Source.OURS,
                remark=" ".join(
                    f"Nets trained with {depth} steps alone: {in_words(_rising(group))}."
                    for depth in sorted({net.trained_at for net in nets})
                    if len(group := [net for net in nets if net.trained_at == depth]) < len(nets)
                ),
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        points = [
            {"net": net.net, "x": net.alignment, "y": net.last - net.then, "label": net.label} for net in _nets(rows)
        ]
        return Points("AA score", "correct bits gained past the training depth", points)


def _gain(nets: Sequence[NetCurve]) -> Estimate:
    return difference([net.last for net in nets], [net.then for net in nets], [net.family for net in nets])


def _rising(nets: Sequence[NetCurve]) -> Estimate:
    gains = [net.last - net.then for net in nets]
    return rank_correlation([net.alignment for net in nets], gains, [net.family for net in nets])


def _nets(rows: Sequence[Row]) -> list[NetCurve]:
    """Averages over lengths."""
    profiles = select(with_fits(rows), measure=Profile.__name__, budget="large")
    aligned = {net["net"]: net for net in averaged(profiles, "alignment")}
    return [
        NetCurve(
            net,
            curves[0]["label"],
            aligned[net]["alignment"],
            curves[0]["trained_at"],
            curves[0]["at"],
            np.mean([curve["partial_scores"] for curve in curves], 0),
            aligned[net].get("family", net),
            aligned[net].get("fits", True),
        )
        for net, curves in group_by(select(rows, measure=AccuracyCurve.__name__), "net")
    ]
