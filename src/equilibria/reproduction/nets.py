"""The nets of the paper. Figures that need the same net get the same recipe."""

from dataclasses import replace
from enum import StrEnum
from itertools import product
from typing import Literal

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.gradients import Backprop, Gradient, Implicit, Phantom
from equilibria.nets import ConvNet, DenseNet, Feedforward, GraphNet
from equilibria.reproduction.engine.figure import FigureNet
from equilibria.reproduction.scales import PAPER, Factors, Scale
from equilibria.solvers import Broyden
from equilibria.training import Recipe
from equilibria.training.depths import Fixed
from equilibria.training.extras import AlignmentPenalty, Progressive
from equilibria.training.recipe import Pretraining
from equilibria.training.starts import Mixed, Projected, Start

SOLVER = PAPER.differentiated  # forward and backward
IMPLICIT_GRADIENT = Implicit(solver=SOLVER, budget=Budget(10), scale=0.8)


class Category(StrEnum):
    """A group of nets that differ from other nets of their task in one respect."""

    # Three ways to solve and differentiate.
    UNROLL = "unroll"  # fixed point iteration, backpropagation
    SOLVER = "solver"  # Anderson, backpropagation
    IMPLICIT = "implicit"  # Anderson, implicit gradients
    # Interventions on the unrolled prefix-sum nets.
    MIXED = "mixed"
    RANDOM_DEPTH = "random_depth"
    PENALTY = "penalty"
    LOCAL = "mixed_local_norm"  # not in the paper: shallow nets that cannot see the whole string in one step
    LOCAL_PLAIN = "mixed_local_norm_plain_steps"  # the same nets, measured with fixed point iteration
    # Maze nets.
    SETTLED = "settled"  # the net that represents path independence
    SHALLOW = "unroll_shallow"
    SHALLOW_WEIGHT_NORM = "unroll_shallow_weight_norm"
    DEEP = "unroll_deep"
    DEEP_WEIGHT_NORM = "unroll_deep_weight_norm"
    PHANTOM = "phantom"
    PROGRESSIVE = "progressive"
    FEEDFORWARD = "feedforward"
    FEEDFORWARD_INJECTED = "feedforward_injected"
    NO_INJECTION = "no_injection"
    # The nets of Table 1.
    PATH_INDEPENDENT = "path_independent"
    PATH_DEPENDENT = "path_dependent"


WAYS = (Category.UNROLL, Category.SOLVER, Category.IMPLICIT)
MAZE_CATEGORIES = (  # in the order in which figures show them
    Category.SHALLOW,
    Category.SHALLOW_WEIGHT_NORM,
    Category.DEEP,
    Category.DEEP_WEIGHT_NORM,
    Category.IMPLICIT,
    Category.PHANTOM,
    Category.PROGRESSIVE,
    Category.FEEDFORWARD,
    Category.FEEDFORWARD_INJECTED,
    Category.NO_INJECTION,
    Category.SETTLED,
)


def figure_net(category: StrEnum, recipe: Recipe, depth: int | None = None) -> FigureNet:
    """Read the facts about a net from its recipe, and name the recipe after them for the progress of its training.

    Args:
        depth: Defaults to the layers of a feedforward net, and to the training depth of other nets.
    """
    body, layers = (recipe.net.body, recipe.net.depth) if isinstance(recipe.net, Feedforward) else (recipe.net, 0)
    net = FigureNet(
        category,
        recipe,
        depth or layers or recipe.depth.most,
        weight_norm=isinstance(body, ConvNet | DenseNet) and body.weight_norm,
        norm=body.norm if isinstance(body, ConvNet | DenseNet | GraphNet) else "none",
        aggregate=body.aggregate if isinstance(body, GraphNet) else "",
    )
    return replace(net, recipe=replace(recipe, name=f"{net.task}: {net.label}"))


def in_way(recipe: Recipe, way: Category, *, through: Solver) -> Recipe:
    """Return the same recipe with one of the three ways to solve and differentiate that the paper compares.

    Args:
        through: the solver that is backpropagated through.
    """
    match way:
        case Category.UNROLL:
            return recipe
        case Category.SOLVER:
            return replace(recipe, solver=through, gradient=Backprop())
        case Category.IMPLICIT:
            return replace(recipe, solver=SOLVER, gradient=IMPLICIT_GRADIENT)
    raise ValueError(f"unknown category {way!r}; use one of {', '.join(WAYS)}")


def string_nets(scale: Scale, *categories: Category) -> list[FigureNet]:
    """Return the prefix-sum nets of some categories: every depth, with and without weight norm, at every rate."""
    return [net for category in categories for net in _string_nets(scale, category)]


def _string_nets(scale: Scale, category: Category) -> list[FigureNet]:
    local, factors = category in (Category.LOCAL, Category.LOCAL_PLAIN), scale.string_factors
    base = scale.free_strings if local else scale.strings
    body = base.net
    assert isinstance(body, ConvNet)
    if local:
        # The shallow nets with mixed starts, more training steps and another norm. Group norm averages over
        # positions, so that distant positions influence each other in one step.
        body = replace(body, norm="channel")
        factors = factors._replace(depths=factors.depths[:1], random_depths=factors.random_depths[:1])
    nets = []
    for (depth, random), weight_norm, rate in product(
        zip(factors.depths, factors.random_depths, strict=True), (False, True), factors.rates
    ):
        recipe = replace(
            base,
            net=replace(body, weight_norm=weight_norm),
            depth=Fixed(depth),
            optim=replace(base.optim, lr=rate),
        )
        if local or category is Category.MIXED:
            recipe = replace(recipe, start=Mixed())
        elif category is Category.RANDOM_DEPTH:
            recipe = replace(recipe, depth=random)
        elif category is Category.PENALTY:
            recipe = replace(recipe, extras=(AlignmentPenalty(normalise=True),))
        else:
            recipe = in_way(recipe, category, through=scale.differentiated)
        nets.append(figure_net(category, recipe, depth))
    return nets


def deepest(scale: Scale, category: Category) -> FigureNet:
    """Return the deepest prefix-sum net of a category without weight norm, at the highest rate."""
    return next(net for net in string_nets(scale, category) if net.depth == max(scale.string_factors.depths))


def free_string_net(scale: Scale) -> FigureNet:
    """Return a net of the largest depth that sees its input in its initial state only."""
    base, body = scale.free_strings, scale.free_strings.net
    assert isinstance(body, ConvNet)
    recipe = replace(
        base,
        net=replace(body, injection="none", blocks=1),
        start=Projected(),
        depth=Fixed(max(scale.string_factors.depths)),
    )
    return figure_net(Category.NO_INJECTION, recipe)


def maze_nets(scale: Scale, *categories: Category) -> list[FigureNet]:
    """Return the maze nets of some categories, one each."""
    after = (Category.IMPLICIT, Category.PHANTOM)  # these repeat the training of the settled net
    nets = [figure_net(category, maze_recipe(scale, category)) for category in categories]
    return [replace(net, origin=scale.settled_mazes) if net.category in after else net for net in nets]


def maze_recipe(scale: Scale, category: Category) -> Recipe:
    """Return the recipe of the maze net of a category."""
    base, body = scale.mazes, scale.mazes.net
    assert isinstance(body, ConvNet)
    free = replace(body, injection="none")
    match category:
        case Category.SETTLED:
            return scale.settled_mazes
        case Category.SHALLOW | Category.DEEP:
            depth = scale.shallow if category is Category.SHALLOW else scale.deep
            return replace(base, net=replace(body, weight_norm=False), depth=Fixed(depth))
        case Category.SHALLOW_WEIGHT_NORM | Category.DEEP_WEIGHT_NORM:
            depth = scale.shallow if category is Category.SHALLOW_WEIGHT_NORM else scale.deep
            return replace(base, net=replace(body, weight_norm=True), depth=Fixed(depth))
        case Category.PROGRESSIVE:
            return replace(base, depth=Fixed(scale.deep), extras=(Progressive(),))
        case Category.NO_INJECTION:
            return replace(base, net=free, depth=Fixed(scale.deep), start=Projected())
        case Category.FEEDFORWARD:
            return _feedforward(base, free, scale.deep, Projected())
        case Category.FEEDFORWARD_INJECTED:
            return _feedforward(base, body, scale.deep, base.start)
        case Category.IMPLICIT:
            return _after_unrolling(scale, Implicit(solver=Broyden(), budget=Budget(scale.implicit_depth)))
        case Category.PHANTOM:
            return _after_unrolling(scale, Phantom(steps=2, damping=0.75))
    raise ValueError(f"there are no maze nets of category {category!r}; use one of {', '.join(MAZE_CATEGORIES)}")


def _feedforward(recipe: Recipe, body: ConvNet, depth: int, start: Start) -> Recipe:
    """Layers with separate weights. Together they are one step, also in evaluations."""
    evaluation = replace(
        recipe.evaluation,
        at=tuple((difficulty, 1) for difficulty, _ in recipe.evaluation.at),
        finally_at=tuple((difficulty, 1, *counts) for difficulty, _, *counts in recipe.evaluation.finally_at),
    )
    return replace(recipe, net=Feedforward(body, depth), depth=Fixed(1), start=start, evaluation=evaluation)


def _after_unrolling(scale: Scale, gradient: Gradient) -> Recipe:
    """Unroll first, like the settled net, and then train with Broyden's method and another gradient."""
    base = scale.settled_mazes
    assert isinstance(base.gradient, Backprop)
    return replace(
        base,
        solver=Broyden(),
        depth=Fixed(scale.implicit_depth),
        gradient=gradient,
        pretraining=Pretraining(base.optim.steps, base.depth, base.gradient.last, base.optim.lr),
        optim=replace(base.optim, steps=base.optim.steps + scale.implicit_steps, lr=scale.implicit_rate),
        evaluation=replace(base.evaluation, finally_at=base.evaluation.finally_at[:1]),
    )


def graph_nets(scale: Scale, *aggregates: Literal["add", "mean"]) -> list[FigureNet]:
    """Return graph nets whose nodes take sums over their edges, as GINE does, or means."""
    base, factors = scale.edges, {"add": scale.edge_factors, "mean": scale.mean_edge_factors}
    assert isinstance(base.net, GraphNet)
    recipes = {one: replace(base, net=replace(base.net, aggregate=one)) for one in aggregates}
    return [net for one, recipe in recipes.items() for net in dense_nets(scale, recipe, factors[one])]


def dense_nets(scale: Scale, base: Recipe, factors: Factors) -> list[FigureNet]:
    """Return nets with each way to solve and differentiate, depth, rate and seed, with and without a norm."""
    body = base.net
    assert isinstance(body, DenseNet | GraphNet)
    nets = []
    for way, depth, rate, norm, seed in product(WAYS, factors.depths, factors.rates, ("layer", "none"), factors.seeds):
        optim = replace(base.optim, lr=rate)
        recipe = replace(base, net=replace(body, norm=norm), depth=Fixed(depth), optim=optim, seed=seed)
        nets.append(figure_net(way, in_way(recipe, way, through=scale.differentiated)))
    return nets
