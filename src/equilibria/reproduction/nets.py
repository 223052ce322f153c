"""The nets of the paper, without those for mazes. Figures that need the same net get the same recipe."""

from dataclasses import replace
from enum import StrEnum
from itertools import product
from typing import Literal

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.gradients import Backprop, Implicit
from equilibria.nets import ConvNet, DenseNet, Feedforward, GraphNet
from equilibria.reproduction.engine.figure import FigureNet
from equilibria.reproduction.scales import PAPER, Factors, Scale
from equilibria.training import Recipe
from equilibria.training.depths import Fixed
from equilibria.training.extras import AlignmentPenalty, JacobianRegularisation
from equilibria.training.starts import Mixed, Projected

SOLVER = PAPER.differentiated  # forward and backward
RIDGE = 1e-4  # the stronger one of the factorial of implicit gradients
IMPLICIT_GRADIENT = Implicit(solver=SOLVER, budget=Budget(10), scale=0.8)


class Category(StrEnum):
    """A group of nets that differ from other nets of their task in one respect."""

    # Three ways to solve and differentiate.
    UNROLL = "unroll"  # fixed point iteration, backpropagation
    SOLVER = "solver"  # Anderson, backpropagation
    SOLVER_CONSTANT = "solver_constant_weights"  # the same, with the solver's weights as constants
    IMPLICIT = "implicit"  # Anderson, implicit gradients
    # Interventions on the unrolled prefix-sum nets.
    MIXED = "mixed"
    RANDOM_DEPTH = "random_depth"
    PENALTY = "penalty"
    LOCAL = "mixed_local_norm"  # not in the paper: shallow nets that cannot see the whole string in one step
    LOCAL_PLAIN = "mixed_local_norm_plain_steps"  # the same nets, measured with fixed point iteration
    # Maze nets, besides those above.
    MIXED_RANDOM_DEPTH = "mixed_random_depth"
    TRUNCATED = "truncated"  # backpropagation through the second half of the steps
    SHALLOW = "unroll_shallow"
    SHALLOW_WEIGHT_NORM = "unroll_shallow_weight_norm"
    DEEP = "unroll_deep"
    DEEP_WEIGHT_NORM = "unroll_deep_weight_norm"
    DEEP_GROUP_NORM = "unroll_deep_group_norm"
    PHANTOM = "phantom"
    IMPLICIT_AFTER_MIXED = "implicit_after_mixed"  # not in the paper: mixed starts throughout
    PHANTOM_AFTER_MIXED = "phantom_after_mixed"
    PROGRESSIVE = "progressive"
    FEEDFORWARD = "feedforward"
    FEEDFORWARD_INJECTED = "feedforward_injected"
    NO_INJECTION = "no_injection"
    # The nets of Table 1.
    PATH_INDEPENDENT = "path_independent"
    PATH_DEPENDENT = "path_dependent"


WITH_FURTHER_SEEDS = (Category.IMPLICIT,)  # prefix-sum nets, few of which fit


class ForwardAndGradient(StrEnum):
    """How a prefix-sum net of the factorial of implicit gradients solves, and how it differentiates."""

    PLAIN_BACKPROP = "plain_backprop"
    PLAIN_IMPLICIT = "plain_implicit"
    PLAIN_REGULARISED = "plain_implicit_regularised"
    ANDERSON_BACKPROP = "anderson_backprop"
    ANDERSON_IMPLICIT = "anderson_implicit"
    ANDERSON_REGULARISED = "anderson_implicit_regularised"
    RIDGE_BACKPROP = "anderson_ridge_backprop"
    RIDGE_IMPLICIT = "anderson_ridge_implicit"
    RIDGE_REGULARISED = "anderson_ridge_implicit_regularised"


WAYS = (Category.UNROLL, Category.SOLVER, Category.IMPLICIT)
AT_FURTHER_RATES = (
    Category.UNROLL,
    Category.MIXED,
    Category.IMPLICIT,
    Category.PENALTY,
)  # prefix-sum nets that are trained at more rates, with one seed


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
        penalty=next((extra.weight for extra in recipe.extras if isinstance(extra, AlignmentPenalty)), 0.0),
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
    """Return the prefix-sum nets of some categories: every seed, depth and rate, with and without weight norm."""
    return [net for category in categories for net in _string_nets(scale, category)]


def _string_nets(scale: Scale, category: Category) -> list[FigureNet]:
    local, penalised = category in (Category.LOCAL, Category.LOCAL_PLAIN), category is Category.PENALTY
    factors = scale.penalty_factors if penalised else scale.string_factors
    further = scale.further_rates if category in AT_FURTHER_RATES else ()
    base = scale.free_strings if local else scale.strings
    body = base.net
    assert isinstance(body, ConvNet)
    if local:
        # The shallow nets with mixed starts, more training steps and another norm. Group norm averages over
        # positions, so that distant positions influence each other in one step.
        body = replace(body, norm="channel")
        factors = factors._replace(depths=factors.depths[:1], random_depths=factors.random_depths[:1])
    nets = []
    seeds = factors.seeds if category in WITH_FURTHER_SEEDS else factors.seeds[:1]
    varied = [
        (seed, depths, weight_norm, rate)
        for seed, depths, weight_norm in product(
            seeds, zip(factors.depths, factors.random_depths, strict=True), (False, True)
        )
        for rate in (*factors.rates, *(further if seed == seeds[0] else ()))
    ]
    for seed, (depth, random), weight_norm, rate in varied:
        recipe = replace(
            base,
            net=replace(body, weight_norm=weight_norm),
            depth=Fixed(depth),
            optim=replace(base.optim, lr=rate),
            seed=seed,
        )
        if local or category is Category.MIXED:
            recipe = replace(recipe, start=Mixed())
        elif category is Category.RANDOM_DEPTH:
            recipe = replace(recipe, depth=random)
        elif not penalised:
            recipe = in_way(recipe, category, through=scale.differentiated)
        weights = scale.penalties if penalised else (0.0,)
        nets += [figure_net(category, _penalised(recipe, weight), depth) for weight in weights]
    return nets


def _penalised(recipe: Recipe, weight: float) -> Recipe:
    return replace(recipe, extras=(AlignmentPenalty(weight, normalise=True),)) if weight else recipe


def factorial_nets(scale: Scale) -> list[FigureNet]:
    """Return deep prefix-sum nets with every forward solver and gradient, with and without weight norm, at some rates.

    Those that the paper compares have the recipes of `string_nets`.
    """
    base, body, kind = scale.strings, scale.strings.net, ForwardAndGradient
    assert isinstance(body, ConvNet)
    ridge = replace(SOLVER, ridge=RIDGE)
    regular = (JacobianRegularisation(1.0),)
    cells = {
        kind.PLAIN_BACKPROP: base,
        kind.PLAIN_IMPLICIT: replace(base, gradient=IMPLICIT_GRADIENT),
        kind.PLAIN_REGULARISED: replace(base, gradient=IMPLICIT_GRADIENT, extras=regular),
        kind.ANDERSON_BACKPROP: replace(base, solver=scale.differentiated),
        kind.ANDERSON_IMPLICIT: replace(base, solver=SOLVER, gradient=IMPLICIT_GRADIENT),
        kind.ANDERSON_REGULARISED: replace(base, solver=SOLVER, gradient=IMPLICIT_GRADIENT, extras=regular),
        kind.RIDGE_BACKPROP: replace(base, solver=replace(scale.differentiated, ridge=RIDGE)),
        kind.RIDGE_IMPLICIT: replace(base, solver=ridge, gradient=IMPLICIT_GRADIENT),
        kind.RIDGE_REGULARISED: replace(base, solver=ridge, gradient=IMPLICIT_GRADIENT, extras=regular),
    }
    depth = Fixed(max(scale.string_factors.depths))
    return [
        figure_net(
            cell,
            replace(
                recipe,
                net=replace(body, weight_norm=weight_norm),
                depth=depth,
                optim=replace(recipe.optim, lr=rate),
            ),
        )
        for cell, recipe in cells.items()
        for weight_norm, rate in product((False, True), scale.factorial_rates)
    ]


def deepest(scale: Scale, category: Category) -> FigureNet:
    """Return the deepest prefix-sum net of a category without weight norm, at the first rate of its scale."""
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


def graph_nets(scale: Scale, *aggregates: Literal["add", "mean"]) -> list[FigureNet]:
    """Return graph nets whose nodes take sums over their edges, as GINE does, or means."""
    base, factors = scale.edges, {"add": scale.edge_factors, "mean": scale.mean_edge_factors}
    assert isinstance(base.net, GraphNet)
    recipes = {one: replace(base, net=replace(base.net, aggregate=one)) for one in aggregates}
    return [net for one, recipe in recipes.items() for net in dense_nets(scale, recipe, factors[one])]


def inversion_nets(scale: Scale) -> list[FigureNet]:
    """Return the matrix nets, whose backpropagation through Anderson steps differentiates the solver's weights or not.

    At other tasks the scale decides which of the two is used. Here the choice decides what the figure shows.
    """
    base, factors = scale.inversion, scale.inversion_factors
    whole, constant = (replace(scale.differentiated, constant_weights=one) for one in (False, True))
    nets = dense_nets(replace(scale, differentiated=whole), base, factors)
    others = dense_nets(replace(scale, differentiated=constant), base, factors)
    return nets + [
        figure_net(Category.SOLVER_CONSTANT, net.recipe) for net in others if net.category is Category.SOLVER
    ]


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
