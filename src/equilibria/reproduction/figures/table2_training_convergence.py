"""Table 2: nets that do not converge in training can still be path independent."""

from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, judge, mean, share, withheld
from equilibria.reproduction.engine.figure import Part, Place, Plan, PlannedMeasurement, TableContent, TableFigure
from equilibria.reproduction.engine.rows import Row, select
from equilibria.reproduction.figures.figure2_ood_mazes import TRAINED_ON, with_broyden
from equilibria.reproduction.nets import Category, maze_nets
from equilibria.reproduction.scales import Scale

HARDER = 25
STEPS = (40, 400)  # of Broyden's method, at the size of the training and at the harder one
PAPER = {  # residual, AA and accuracy in per cent, each at 9x9 and at 25x25
    Category.PHANTOM: ((11.83, 0.016), (0.96, 0.99), (99.96, 99.88)),
    Category.IMPLICIT: ((1.4, 0.011), (0.99, 0.99), (99.99, 100.0)),
}
LARGER = "solves larger mazes"
INDEPENDENT = "is path independent on larger mazes"
UNCONVERGED = "has not converged at the size and the budget of training"
SAME_NET = (
    "The weights of this net differ by less than .1 % from those of the net with implicit gradients. It counts only "
    "once."
)
LABELS = {Category.PHANTOM: "phantom gradients", Category.IMPLICIT: "implicit function theorem"}


class TrainingConvergence(TableFigure):
    """Residual, AA and accuracy of two implicit gradients."""

    name = "training_convergence"
    places = (Place(Part.TABLE, 2),)
    title = "Convergence in training is not needed for path independence"
    setup = (
        "Maze nets that were unrolled first and then trained with one of two implicit gradients. Broyden's method, 40 "
        "steps at 9x9 and 400 at 25x25. Residuals are absolute norms: their median over mazes in the table, and their "
        "mean in the claims."
    )

    def plan(self, scale: Scale) -> Plan:
        steps = [min(most, large) for most, large in zip(STEPS, scale.trial.maze_steps[::2], strict=False)]
        return [
            PlannedMeasurement(net, with_broyden(scale, net, size, budget))
            for net in maze_nets(scale, *PAPER)
            for size, budget in zip((TRAINED_ON, HARDER), steps, strict=True)
        ]

    def cells(self, rows: Sequence[Row]) -> TableContent:
        header = [
            "gradient",
            "",
            *(f"{what} {size}x{size}" for what in ("residual", "AA", "% solved") for size in (9, 25)),
        ]
        cells = []
        for category, published in PAPER.items():
            ours = [select(rows, category=category, difficulty=size)[0] for size in (TRAINED_ON, HARDER)]
            cells.append([LABELS[category], "paper", *(f"{number:g}" for pair in published for number in pair)])
            cells.append(
                [
                    "",
                    "here",
                    *(_number(row["last_step"], ".3g") for row in ours),
                    *(_number(row["alignment"], ".3f") for row in ours),
                    *(_number(100 * row["score"], ".4g") for row in ours),
                ]
            )
        return TableContent(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        found = []
        for category, (residuals, alignments, accuracies) in PAPER.items():
            (easy,), (hard,) = (select(rows, category=category, difficulty=size) for size in (TRAINED_ON, HARDER))
            solved = share(round(hard["score"] * hard["examples"]), hard["examples"])
            aligned, left = mean(hard["alignment_each"]), mean(easy["last_step_each"])
            for id_, statement, estimate, above, what, paper in (
                ("solves_larger", LARGER, solved, 0.9, "{} of 25x25 mazes solved", f"{accuracies[1]:g} %"),
                ("independent", INDEPENDENT, aligned, 0.95, "AA {}", f"{alignments[1]:g}"),
                ("unconverged", UNCONVERGED, left, 0.1, "residual {} after 40 steps", f"{residuals[0]:g}"),
            ):
                claim = judge(
                    f"{id_}_{category}",
                    f"{LABELS[category]}: {statement}",
                    estimate,
                    above=above,
                    what=what,
                    paper=paper,
                    has_published_number=True,
                )
                found.append(withheld(claim, SAME_NET) if category is Category.PHANTOM else claim)
        return found


def _number(value: float | None, form: str) -> str:
    return "diverged" if value is None else format(value, form)
