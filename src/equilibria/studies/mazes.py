"""What the studies of mazes share: how nets are measured."""

from equilibria.studies.base import Step
from equilibria.studies.measures.profile import Profile
from equilibria.studies.scales import Scale
from equilibria.studies.zoo import MAZE_CATEGORIES, maze_members

SIZES = (9, 13, 25, 31, 59)
TRAINED_ON = 9
BEST_UP_TO = 60  # steps among which those of path-dependent nets are searched, as in the paper


def profile(scale: Scale, category: str, *sizes: int) -> Profile:
    """AA and accuracy at some sizes, with the budgets of the paper.

    Shallow nets take the steps at which they are best, and nets that are not weight-tied their only one.
    """
    trial = scale.trial
    places = [SIZES.index(size) for size in sizes]
    examples = min(trial.mazes[place] for place in places)
    tied = "feedforward" not in category
    return Profile(
        sizes,
        examples,
        trial.others,
        min(trial.aligned_mazes, examples),
        tuple(trial.maze_steps[place] if tied else 1 for place in places),
        search=min(BEST_UP_TO, trial.maze_steps[0] + 10) if "shallow" in category else 0,
    )


def at_large_budget(scale: Scale) -> list[Step]:
    """The nets of all categories at the two sizes of Figure 4."""
    return [Step(one, profile(scale, one.category, 13, 25)) for one in maze_members(scale, *MAZE_CATEGORIES)]
