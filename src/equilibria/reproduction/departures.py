"""What a scale does differently from the paper, read off the recipes themselves."""

from collections.abc import Iterator
from typing import Any

from equilibria.diagnostics.doctor.page import table
from equilibria.reproduction.scales import PAPER, Factors, Scale
from equilibria.training import Recipe

NETS = {
    "prefix sums": ("strings", "string_factors"),
    "mazes": ("mazes", ""),
    "digits": ("digits", "digit_factors"),
    "matrices": ("inversion", "inversion_factors"),
    "graphs": ("edges", "edge_factors"),
}
NUMBERS = {
    "shallow": "steps of the shallow maze nets",
    "deep": "steps of the deep maze nets",
    "implicit_steps": "updates with implicit or phantom gradients, after unrolling",
    "implicit_depth": "steps of Broyden's method in training",
}
MEASURED = {
    "strings": "strings of each length",
    "steps": "steps of the large budget for strings",
    "mazes": "mazes of 9x9, 13x13, 25x25, 31x31, 59x59",
    "maze_steps": "steps of the large budget for each of these",
    "aligned_mazes": "mazes of each size with an AA score",
    "restarts": "other starts of an AA score",
    "attacked": "examples of Table 1",
    "vectors": "digits, matrices or graphs of each difficulty",
}
# What no recipe tells, at any scale.
ALWAYS = (
    (
        "mazes: weights are selected by",
        "accuracy on validation mazes",
        "for the nets settled, implicit and phantom by accuracy on 9x9 and 25x25 mazes, for others on 9x9 and 13x13",
    ),
    ("mazes: the net called settled", "not said how many were trained", "the best of three seeds"),
    (
        "mazes: the nets settled, implicit and phantom",
        "starts at zero, fixed depths",
        "mixed starts, depths of 16 to 40, gradients through the last 12 steps, noise on the state, 50 mazes an update",
    ),
    ("mazes of each size, Figure 2, left", "10,000", "as for Figure 4"),
    ("strings of each length, Figure 2, right", "128", "as for Figure 4"),
    ("attack: the gradient goes through", "not said", "the first 32 steps"),
    ("attack: first guesses for each example", "several", "three"),
    ("Anderson at test", "not said; a memory of 3 in training", "a memory of 5"),
    ("penalty on alignment", "dot products of states", "dot products of states at unit length"),
    ("implicit and phantom maze nets", "unrolled first", "unrolled first, like the net called settled"),
)


def departures_section(scale: Scale) -> str:
    """Part of the report."""
    rows = [*_recipes(scale), *_trial(scale), *ALWAYS]
    made = table(("what", "paper", "here"), rows)
    text = (
        "Settings of the trainings and measurements that differ. Where the paper gives none, its column has the choice "
        "of the scale that follows it: so the depths and widths for digits and graphs, and the depths for matrices. "
        "Single nets differ further, as their recipes say."
    )
    return f"<section id='departures'><h2>What is done differently from the paper</h2><p>{text}</p>{made}</section>"


def _recipes(scale: Scale) -> Iterator[tuple[str, str, str]]:
    for task, (recipe, factors) in NETS.items():
        yield from _differences(task, _flat(getattr(PAPER, recipe)), _flat(getattr(scale, recipe)))
        if factors:
            yield from _differences(task, _varied(getattr(PAPER, factors)), _varied(getattr(scale, factors)))
    theirs, ours = ({text: getattr(one, name) for name, text in NUMBERS.items()} for one in (PAPER, scale))
    yield from _differences("mazes", theirs, ours)
    theirs, ours = ({"takes its weights as given": one.differentiated.constant_weights} for one in (PAPER, scale))
    yield from _differences("backpropagation through Anderson", theirs, ours)


def _trial(scale: Scale) -> Iterator[tuple[str, str, str]]:
    theirs, ours = (
        {MEASURED.get(name, name): value for name, value in one.trial._asdict().items()} for one in (PAPER, scale)
    )
    yield from _differences("measured", theirs, ours)


def _differences(about: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*theirs, *ours)):
        one, other = theirs.get(name), ours.get(name)
        if one != other:
            yield f"{about}: {name.replace('_', ' ')}", _said(one), _said(other)


def _varied(factors: Factors) -> dict[str, Any]:
    return {"rates": factors.rates, "depths": factors.depths, "seeds": factors.seeds}


def _flat(recipe: Recipe) -> dict[str, Any]:
    """Its net, its optimiser and its data, as names and plain values; rates and depths are varied elsewhere."""
    data, optim = recipe.data(), recipe.optim
    told = {"lr", "steps", "batch"} | ({"drop", "drops"} if optim.schedule != "steps" else set())
    return {
        **{f"net, {name}": value for name, value in data["net"].items()},
        **{f"training, {name}": value for name, value in data["optim"].items() if name not in told},
        "updates x examples of each": f"{optim.steps:,} x {optim.batch}",
        "instances to train on": f"{recipe.pool:,}" if recipe.pool else "fresh ones each time",
    }


def _said(value: Any) -> str:
    match value:
        case None:
            return "none"
        case list() | tuple():
            return ", ".join(map(_said, value))
        case float():
            return f"{value:g}"
    return str(value)
