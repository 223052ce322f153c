"""Settings that differ from the paper, found by comparing recipes."""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints

from equilibria.reproduction.scales import PAPER, Scale, Trial
from equilibria.training import Recipe

RECIPES = {  # task: its recipe and what is varied, as fields of a scale
    "prefix sums": ("strings", "string_factors"),
    "mazes": ("mazes", ""),
    "digits": ("digits", "digit_factors"),
    "matrices": ("inversion", "inversion_factors"),
    "graphs": ("edges", "edge_factors"),
}
VARIED = ("rates", "depths", "seeds")
DESCRIBED = (("prefix sums", "seeds"),)  # in words, in ALWAYS
VARIED_BESIDES = {"penalty_factors": "prefix sums with a penalty"}  # further factors of a scale


class Departure(NamedTuple):
    """One setting that differs from the paper."""

    setting: str
    paper: str
    here: str


# Differences at every scale that recipes do not show.
ALWAYS = (
    Departure("mazes: weights are selected by", "accuracy on validation mazes", "accuracy on 9x9 mazes"),
    Departure(
        "mazes: nets that are attacked and solved by two solvers",
        "32 layers from zero, which are path independent; 8 layers",
        "mixed starts, random depths and gradients through the last steps, because nets from zero are not path "
        "independent here; 8 steps",
    ),
    Departure("mazes of each size in Figure 2, left", "10,000", "as in Figure 4"),
    Departure("strings of each length in Figure 2, right", "128", "as in Figure 4"),
    Departure("attack: steps that the gradient passes through", "not given", "the first 32"),
    Departure("attack: initial guesses per example", "several", "three"),
    Departure("memory of Anderson's method at test time", "not given; 3 in training", "5"),
    Departure("prefix sums: seeds", "not given", "one; two of nets with implicit gradients at the scale laptop"),
    Departure("matrices: loss", "squared error", "100 times the squared error at the scale laptop"),
    Departure("alignment penalty", "dot products of states", "dot products of states scaled to unit length"),
    Departure(
        "prefix sums: learning rates, which the paper gives twice",
        "1e-2, 1e-3, 1e-4 in Section 5; 1e-3, 1e-4, 1e-5 in the appendix",
        "the scale paper uses those of the appendix",
    ),
    Departure("matrices: size, which the paper gives twice", "10x10 in the text, 20x20 in the appendix", "20x20"),
    Departure("graphs: learning rates", "1e-3 and twice 1e-4", "the scale paper uses 1e-3, 3.3e-4, 1e-4"),
    Departure("graphs: how nodes combine their edges", "sums, as in GINE", "sums; means in additional nets"),
)


def departures(scale: Scale) -> list[Departure]:
    """Return every setting in which `scale` differs from the paper."""
    return [*_compared(scale), *ALWAYS]


def _compared(scale: Scale) -> Iterator[Departure]:
    both = (PAPER, scale)
    for task, (recipe, factors) in RECIPES.items():
        yield from _differences(task, *(_flat(getattr(one, recipe)) for one in both))
        if factors:
            names = [name for name in VARIED if (task, name) not in DESCRIBED]
            varied = ({name: getattr(getattr(one, factors), name) for name in names} for one in both)
            yield from _differences(task, *varied)
    for factors, about in VARIED_BESIDES.items():
        varied = ({name: getattr(getattr(one, factors), name) for name in VARIED} for one in both)
        yield from _differences(about, *varied)
    yield from _differences("", *map(_described, both))
    constant = ({"solver weights are constants": one.differentiated.constant_weights} for one in both)
    yield from _differences("backpropagation through Anderson steps", *constant)
    yield from _differences("measured", *(_described(one.trial) for one in both))


def _differences(about: str, paper: dict[str, Any], here: dict[str, Any]) -> Iterator[Departure]:
    for name in dict.fromkeys((*paper, *here)):
        if paper.get(name) != here.get(name):
            setting = f"{about}: {name}" if about else name
            yield Departure(setting.replace("_", " "), _text(paper.get(name)), _text(here.get(name)))


def _described(settings: Scale | Trial) -> dict[str, Any]:
    """The annotated fields, by their descriptions."""
    hints = get_type_hints(type(settings), include_extras=True)
    words = {name: kind.__metadata__[0] for name, kind in hints.items() if get_origin(kind) is Annotated}
    return {text: getattr(settings, name) for name, text in words.items()}


def _flat(recipe: Recipe) -> dict[str, Any]:
    """The net, the optimiser and the data by name. Rates are compared among the varied settings."""
    data, optim = recipe.data(), recipe.optim
    skipped = {"lr", "steps", "batch"} | ({"drop", "drops"} if optim.schedule != "steps" else set())
    return {
        **{f"net, {name}": value for name, value in data["net"].items()},
        **{f"training, {name}": value for name, value in data["optim"].items() if name not in skipped},
        "updates x batch size": f"{optim.steps:,} x {optim.batch}",
        "training examples": f"{recipe.pool:,}" if recipe.pool else "new examples for every update",
    }


def _text(value: Any) -> str:
    match value:
        case None:
            return "none"
        case list() | tuple():
            return ", ".join(map(_text, value))
        case float():
            return f"{value:g}"
    return str(value)
