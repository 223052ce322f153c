"""The nets of the paper, by the names of their categories. Studies that ask for the same net get the same recipe."""

from dataclasses import replace
from itertools import product

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.gradients import Backprop, Gradient, Implicit, Phantom
from equilibria.nets import ConvNet, DenseNet, Feedforward, GraphNet
from equilibria.reproduction.engine.figure import Member
from equilibria.reproduction.scales import PAPER, Scale
from equilibria.solvers import Broyden
from equilibria.training import Recipe
from equilibria.training.depths import Fixed
from equilibria.training.extras import AlignmentPenalty, Progressive
from equilibria.training.recipe import Pretraining
from equilibria.training.starts import Mixed, Projected, Start

SOLVER = PAPER.differentiated  # forward and backward
IMPLICIT = Implicit(solver=SOLVER, budget=Budget(10), scale=0.8)

# What each category of prefix-sum nets does differently from the first.
STRING_CATEGORIES = ("unroll", "solver", "implicit", "mixed", "random depth", "penalty")
LOCAL = "mixed, norm by position"  # not the paper's: shallow nets that cannot see the whole string in one step
# Fixed point iterations and backpropagation, a solver and backpropagation, a solver and implicit gradients.
WAYS = ("unroll", "solver", "implicit")


def in_way(recipe: Recipe, way: str, *, through: Solver) -> Recipe:
    """The same recipe, solved and differentiated in one of the three ways that the paper compares.

    `through` is the solver that is backpropagated through.
    """
    match way:
        case "unroll":
            return recipe
        case "solver":
            return replace(recipe, solver=through, gradient=Backprop())
        case "implicit":
            return replace(recipe, solver=SOLVER, gradient=IMPLICIT)
    raise ValueError(f"unknown way {way!r} to train a net; use one of {', '.join(WAYS)}")


def string_nets(scale: Scale, category: str) -> list[Recipe]:
    """The nets of one category: every depth, with and without weight norm, at every rate."""
    if category == LOCAL:
        return _local_string_nets(scale)
    factors, base, body = scale.string_factors, scale.strings, scale.strings.net
    assert isinstance(body, ConvNet)
    nets = []
    for (depth, random), weight_norm, rate in product(
        zip(factors.depths, factors.random_depths, strict=True), (False, True), factors.rates
    ):
        net = replace(
            base,
            name=f"{category}, depth {depth}{', weight norm' if weight_norm else ''}, rate {rate:g}",
            net=replace(body, weight_norm=weight_norm),
            depth=Fixed(depth),
            optim=replace(base.optim, lr=rate),
        )
        match category:
            case "mixed":
                net = replace(net, start=Mixed())
            case "random depth":
                net = replace(net, depth=random)
            case "penalty":
                net = replace(net, extras=(AlignmentPenalty(normalise=True),))
            case _:
                net = in_way(net, category, through=scale.differentiated)
        nets.append(net)
    return nets


def _local_string_nets(scale: Scale) -> list[Recipe]:
    """The shallow nets from mixed starts once more, trained as long as the net without injection, with another norm.

    Group norm averages over positions, so that far ones see each other at once.
    """
    base, factors = scale.free_strings, scale.string_factors
    assert isinstance(base.net, ConvNet)
    shallow = factors._replace(depths=factors.depths[:1], random_depths=factors.random_depths[:1])
    base = replace(base, net=replace(base.net, norm="channel"))
    nets = string_nets(replace(scale, strings=base, string_factors=shallow), "mixed")
    return [replace(net, name=net.name.replace("mixed", LOCAL)) for net in nets]


def string_members(scale: Scale, *categories: str) -> list[Member]:
    """All nets of these categories."""
    return [Member(category, recipe) for category in categories for recipe in string_nets(scale, category)]


def free_string_net(scale: Scale) -> Recipe:
    """A net of the largest depth, which sees its input in its first state only."""
    base, body, depth = scale.free_strings, scale.free_strings.net, max(scale.string_factors.depths)
    assert isinstance(body, ConvNet)
    return replace(
        base,
        name=f"no injection, depth {depth}, rate {base.optim.lr:g}",
        net=replace(body, injection="none", blocks=1),
        start=Projected(),
        depth=Fixed(depth),
    )


# `settled` is the net that the others are held against where one has to be path independent.
MAZE_CATEGORIES = (
    "unroll, shallow",
    "unroll, shallow, weight norm",
    "unroll, deep",
    "unroll, deep, weight norm",
    "implicit",
    "phantom",
    "progressive",
    "feedforward",
    "feedforward, injected",
    "no injection",
    "settled",
)


def maze_net(scale: Scale, category: str) -> Recipe:
    """The net of one category of maze nets."""
    base, body = scale.mazes, scale.mazes.net
    assert isinstance(body, ConvNet)
    free = replace(body, injection="none")
    named = replace(base, name=f"mazes, {category}")
    match category:
        case "settled":
            return scale.settled_mazes
        case "unroll, shallow" | "unroll, deep":
            return replace(named, net=replace(body, weight_norm=False), depth=_depth(scale, category))
        case "unroll, shallow, weight norm" | "unroll, deep, weight norm":
            return replace(named, net=replace(body, weight_norm=True), depth=_depth(scale, category))
        case "progressive":
            return replace(named, depth=Fixed(scale.deep), extras=(Progressive(),))
        case "no injection":
            return replace(named, net=free, depth=Fixed(scale.deep), start=Projected())
        case "feedforward":
            return _feedforward(named, free, scale.deep, Projected())
        case "feedforward, injected":
            return _feedforward(named, body, scale.deep, named.start)
        case "implicit":
            return _after_unrolling(scale, category, Implicit(solver=Broyden(), budget=Budget(scale.implicit_depth)))
        case "phantom":
            return _after_unrolling(scale, category, Phantom(steps=2, damping=0.75))
    raise ValueError(f"unknown category {category!r} of maze nets; use one of {', '.join(MAZE_CATEGORIES)}")


def maze_members(scale: Scale, *categories: str) -> list[Member]:
    """The nets of these categories."""
    return [Member(category, maze_net(scale, category)) for category in categories]


def _feedforward(recipe: Recipe, body: ConvNet, depth: int, start: Start) -> Recipe:
    """Layers with weights of their own, one after another. All of them are one step, also where it is evaluated."""
    asked = recipe.evaluation
    once = replace(
        asked,
        at=tuple((difficulty, 1) for difficulty, _ in asked.at),
        finally_at=tuple((difficulty, 1, *counts) for difficulty, _, *counts in asked.finally_at),
    )
    return replace(recipe, net=Feedforward(body, depth), depth=Fixed(1), start=start, evaluation=once)


def _depth(scale: Scale, category: str) -> Fixed:
    return Fixed(scale.shallow if "shallow" in category else scale.deep)


def _after_unrolling(scale: Scale, category: str, gradient: Gradient) -> Recipe:
    """First unrolled like the settled net, and then implicitly for some steps more, with Broyden's method."""
    base = scale.settled_mazes
    assert isinstance(base.gradient, Backprop)
    return replace(
        base,
        name=f"mazes, {category}",
        solver=Broyden(),
        depth=Fixed(scale.implicit_depth),
        gradient=gradient,
        pretraining=Pretraining(base.optim.steps, base.depth, base.gradient.last, base.optim.lr),
        optim=replace(base.optim, steps=base.optim.steps + scale.implicit_steps, lr=scale.implicit_rate),
        evaluation=replace(base.evaluation, finally_at=base.evaluation.finally_at[:1]),
    )


# The three other tasks: what is varied, and how a net of each looks without a norm.
def dense_nets(scale: Scale, task: str) -> list[Member]:
    """Nets for digits, matrices or graphs: three ways to solve and differentiate, every rate, with and without norm."""
    base, factors = {
        "digits": (scale.digits, scale.digit_factors),
        "inversion": (scale.inversion, scale.inversion_factors),
        "edges": (scale.edges, scale.edge_factors),
    }[task]
    body = base.net
    assert isinstance(body, DenseNet | GraphNet)
    members = []
    for way, depth, rate, norm, seed in product(WAYS, factors.depths, factors.rates, ("layer", "none"), factors.seeds):
        name = f"{task}, {way}, depth {depth}, rate {rate:g}, {'layer norm' if norm == 'layer' else 'no norm'}"
        recipe = replace(
            base,
            name=f"{name}, seed {seed}" if seed else name,
            net=replace(body, norm=norm),
            depth=Fixed(depth),
            optim=replace(base.optim, lr=rate),
            seed=seed,
        )
        members.append(Member(way, in_way(recipe, way, through=scale.differentiated)))
    return members
