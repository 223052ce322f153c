"""What the studies of mazes share: how nets are measured."""

from dataclasses import replace

from equilibria.reproduction.engine.figure import Step
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import maze_members
from equilibria.reproduction.scales import Scale

SIZES = (9, 13, 25, 31, 59)
TRAINED_ON = 9
ALIGNED = (9, 13, 25)  # the sizes at which AA is measured
BEST_UP_TO = 60  # steps among which those of path-dependent nets are searched, as in the paper


def profile(scale: Scale, category: str, size: int) -> Profile:
    """AA and accuracy at one size, with the budget of the paper.

    Shallow nets take the steps at which they are best, and nets that are not weight-tied their only one.
    """
    trial, place = scale.trial, SIZES.index(size)
    examples = trial.mazes[place]
    return Profile(
        (size,),
        examples,
        trial.restarts,
        min(trial.aligned_mazes, examples) if size in ALIGNED else 0,
        (1 if "feedforward" in category else trial.maze_steps[place],),
        search=min(BEST_UP_TO, trial.maze_steps[place]) if "shallow" in category else 0,
    )


def with_broyden(scale: Scale, size: int, steps: int) -> Profile:
    """The same with Broyden's method and another budget."""
    return replace(profile(scale, "", size), steps=(steps,), solver="broyden", each=True)


def at_large_budget(scale: Scale, categories: tuple[str, ...], *sizes: int) -> list[Step]:
    """Nets of some categories at some sizes."""
    return [
        Step(member, profile(scale, member.category, size))
        for member in maze_members(scale, *categories)
        for size in sizes
    ]
