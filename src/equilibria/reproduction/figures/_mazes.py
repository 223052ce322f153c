"""What the figures of mazes share: how nets are measured."""

from dataclasses import replace

from equilibria.nets import Feedforward
from equilibria.reproduction.engine.figure import FigureNet, PlannedMeasurement
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category, maze_nets
from equilibria.reproduction.scales import Scale

SIZES = (9, 13, 25, 31, 59)
TRAINED_ON = 9
ALIGNED = (9, 13, 25)  # the sizes at which AA is measured
BEST_UP_TO = 60  # steps among which the best number for shallow nets is searched, as in the paper
SHALLOW = (Category.SHALLOW, Category.SHALLOW_WEIGHT_NORM)


def profile(scale: Scale, net: FigureNet, size: int) -> Profile:
    """Measure AA and accuracy at one size with the paper's budget.

    Shallow nets take the number of steps with the best score, and feedforward nets one.
    """
    trial, place = scale.trial, SIZES.index(size)
    examples, steps = trial.mazes[place], trial.maze_steps[place]
    return Profile(
        (size,),
        examples,
        trial.restarts,
        min(trial.aligned_mazes, examples) if size in ALIGNED else 0,
        (1 if isinstance(net.recipe.net, Feedforward) else steps,),
        search=min(BEST_UP_TO, steps) if net.category in SHALLOW else 0,
    )


def with_broyden(scale: Scale, net: FigureNet, size: int, steps: int) -> Profile:
    """Measure with Broyden's method and another budget, and keep single mazes."""
    return replace(profile(scale, net, size), steps=(steps,), solver="broyden", each=True)


def at_large_budget(scale: Scale, categories: tuple[Category, ...], *sizes: int) -> list[PlannedMeasurement]:
    """Plan the nets of some categories at some sizes."""
    return [
        PlannedMeasurement(net, profile(scale, net, size)) for net in maze_nets(scale, *categories) for size in sizes
    ]
