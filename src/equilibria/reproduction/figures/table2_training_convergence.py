"""Table 2: nets that do not converge in training can still be path independent."""

import math
from collections.abc import Sequence
from dataclasses import replace

from equilibria.reproduction.engine.claims import Claim, Source, fall_of_share, judge, mean, over_seeds, withheld
from equilibria.reproduction.engine.figure import (
    Ablation,
    Part,
    Place,
    Plan,
    PlannedMeasurement,
    TableContent,
    TableFigure,
    plan_all,
)
from equilibria.reproduction.engine.rows import Row, group_by, numbers, select, values
from equilibria.reproduction.figures._nets_as_points import fitting
from equilibria.reproduction.figures.figure2_ood_mazes import (
    HARDER,
    TRAINED_ON,
    does_not_fit,
    listed,
    profile,
    solved,
    with_broyden,
    with_fits,
)
from equilibria.reproduction.maze_nets import AFTER_MIXED, maze_nets
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

STEPS = (40, 400)  # of Broyden's method, at the size of the training and at the harder one
PAPER = {  # residual, AA and accuracy in per cent, each at 9x9 and at 25x25
    Category.PHANTOM: ((11.83, 0.016), (0.96, 0.99), (99.96, 99.88)),
    Category.IMPLICIT: ((1.4, 0.011), (0.99, 0.99), (99.99, 100.0)),
}
ORDER = (*PAPER, *AFTER_MIXED)
LARGER = "nets solve larger mazes"
INDEPENDENT = "nets are path independent on larger mazes"
UNCONVERGED = "nets have not converged at the size and the budget of training"
LABELS = {
    Category.PHANTOM: "phantom gradients",
    Category.IMPLICIT: "implicit function theorem",
    Category.PHANTOM_AFTER_MIXED: "phantom gradients after mixed starts",
    Category.IMPLICIT_AFTER_MIXED: "implicit function theorem after mixed starts",
}


class TrainingConvergence(TableFigure):
    """Residual, AA and accuracy of two implicit gradients."""

    name = "training_convergence"
    places = (Place(Part.TABLE, 2),)
    title = "Convergence in training is not needed for path independence"
    setup = (
        "Maze nets without norm layers that were unrolled first and then trained with one of two implicit gradients, "
        "with several seeds. The paper's nets start from zero. We added nets whose whole training has mixed starts and "
        "whose unrolled part has random depths; they are measured on fewer mazes. Broyden's method, 40 steps at 9x9 "
        "and 400 at 25x25. Residuals are absolute norms: their median over mazes in the table, and their mean in the "
        "claims. The table has means over seeds, with the smallest and the largest value. The last claim compares "
        "with 400 fixed point iterations at 25x25."
    )

    ablations = (
        Ablation(
            tuple(f"{claim}_{category}" for claim in ("solves_larger", "independent") for category in PAPER),
            "The training: mixed starts throughout; in the unrolled part also random depths, gradients through the "
            "last steps, and 2000 updates instead of 800. Two seeds instead of three.",
            tuple(
                ("training_convergence", f"{claim}_{category}")
                for claim in ("solves_larger", "independent")
                for category in AFTER_MIXED
            ),
        ),
    )

    def plan(self, scale: Scale) -> Plan:
        steps = [min(most, large) for most, large in zip(STEPS, scale.trial.maze_steps[::2], strict=False)]
        sizes, nets = list(zip((TRAINED_ON, HARDER), steps, strict=True)), maze_nets(scale, *PAPER)
        with_plain_steps = replace(with_broyden(scale, nets[0], HARDER, steps[1]), solver="picard", aligned=0)
        return [
            *(PlannedMeasurement(net, with_broyden(scale, net, *at)) for net in nets for at in sizes),
            *plan_all(nets, with_plain_steps),
            *(
                PlannedMeasurement(net, replace(profile(scale, net, size), steps=(most,), solver="broyden", each=True))
                for net in maze_nets(scale, *AFTER_MIXED)
                for size, most in sizes
            ),
        ]

    def cells(self, rows: Sequence[Row]) -> TableContent:
        header = [
            "gradient",
            "",
            *(f"{what} {size}x{size}" for what in ("residual", "AA", "% solved") for size in (9, 25)),
        ]
        cells = []
        for category in ORDER:
            published = PAPER.get(category)
            if published:
                cells.append([LABELS[category], "paper", *(f"{number:g}" for pair in published for number in pair)])
            cells.append(
                [
                    "" if published else LABELS[category],
                    "here",
                    *(
                        _over_nets(
                            select(rows, category=category, difficulty=size, solver="broyden"), name, form, factor
                        )
                        for name, form, factor in (
                            ("last_step", ".3g", 1),
                            ("alignment", ".3f", 1),
                            ("score", ".4g", 100),
                        )
                        for size in (TRAINED_ON, HARDER)
                    ),
                ]
            )
        return TableContent(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        rows = with_fits(rows)
        own = select(rows, solver="broyden")
        judged = [claim for category in ORDER for claim in _claims(select(own, category=category), category)]
        return [*judged, _under_plain_iteration(select(rows, category=tuple(PAPER)))]


def _claims(every: Sequence[Row], category: Category) -> list[Claim]:
    """Judge the nets of one gradient that fit their training data, each of them."""
    nets = fitting(every)
    easy, hard = (select(nets, difficulty=size) for size in (TRAINED_ON, HARDER))
    residual, alignment, accuracy = _published(category)
    found = []
    for id_, statement, estimates, above, what, paper in (
        ("solves_larger", LARGER, [solved(row) for row in hard], 0.9, "{} of 25x25 mazes solved", accuracy),
        ("independent", INDEPENDENT, [mean(numbers(row["alignment_each"])) for row in hard], 0.95, "AA {}", alignment),
        (
            "unconverged",
            UNCONVERGED,
            [mean(numbers(row["last_step_each"])) for row in easy],
            0.1,
            "residual {} after 40 steps",
            residual,
        ),
    ):
        each = ", ".join(f"{one.value:.3g}" for one in estimates)
        claim = judge(
            f"{id_}_{category}",
            f"{LABELS[category]}: {statement}",
            over_seeds(estimates),
            above=above,
            what=what,
            paper=paper,
            has_published_number=bool(paper),
            source=Source.PAPER if paper else Source.OURS,
            added_late=not paper,
            remark=f"Single nets: {each}. The interval contains those of all nets." if nets else "",
        )
        found.append(claim if nets else withheld(claim, does_not_fit(every)))
    return found


def _published(category: Category) -> tuple[str, str, str]:
    """The paper's residual at 9x9, and its AA and accuracy at 25x25, as text; empty for nets of our own."""
    if category not in PAPER:
        return "", "", ""
    residuals, alignments, accuracies = PAPER[category]
    return f"{residuals[0]:g}", f"{alignments[1]:g}", f"{accuracies[1]:g} %"


def _under_plain_iteration(rows: Sequence[Row]) -> Claim:
    """Whether nets that were trained with Broyden's method solve fewer mazes with plain iteration."""
    nets = select(fitting(rows), difficulty=HARDER)
    with_both = {net: {row["solver"]: row for row in group} for net, group in group_by(nets, "net") if len(group) > 1}
    broyden, plain = ([one[name] for one in with_both.values()] for name in ("broyden", "picard"))
    return judge(
        "broyden_nets_struggle_under_plain_iteration",
        "nets that were trained with Broyden's method solve fewer larger mazes with fixed point iteration",
        over_seeds([fall_of_share(solved(one), solved(other)) for one, other in zip(broyden, plain, strict=True)]),
        above=0.0,
        what=f"the share of solved {HARDER}x{HARDER} mazes falls by {{}}",
        paper="struggle (Limitations)",
        added_late=True,
        remark=f"Broyden's method: {listed(broyden)}. Fixed point iteration: {listed(plain)}. The interval contains "
        "those of all nets.",
    )


def _over_nets(rows: Sequence[Row], name: str, form: str, factor: float) -> str:
    """The mean of a column over nets, with its range."""
    column = [factor * value for value in values(rows, name)]
    if any(math.isnan(value) for value in column):
        return "diverged"
    return f"{sum(column) / len(column):{form}} ({min(column):{form}} to {max(column):{form}})"
