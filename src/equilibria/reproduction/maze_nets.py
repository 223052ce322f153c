"""The maze nets of the paper: one recipe for each category, and several seeds of each."""

from dataclasses import replace

from equilibria.core.budget import Budget
from equilibria.gradients import Backprop, Gradient, Implicit, Phantom
from equilibria.nets import ConvNet, Feedforward
from equilibria.reproduction.engine.figure import FigureNet
from equilibria.reproduction.nets import Category, figure_net
from equilibria.reproduction.scales import Scale
from equilibria.solvers import Broyden
from equilibria.training import Recipe
from equilibria.training.depths import Fixed, Uniform
from equilibria.training.extras import Progressive
from equilibria.training.recipe import Pretraining
from equilibria.training.starts import Mixed, Projected, Start

MAZE_CATEGORIES = (  # in the order in which figures show them
    Category.SHALLOW,
    Category.SHALLOW_WEIGHT_NORM,
    Category.DEEP,
    Category.DEEP_WEIGHT_NORM,
    Category.DEEP_GROUP_NORM,
    Category.MIXED_RANDOM_DEPTH,
    Category.TRUNCATED,
    Category.PROGRESSIVE,
    Category.IMPLICIT,
    Category.PHANTOM,
    Category.FEEDFORWARD,
    Category.FEEDFORWARD_INJECTED,
    Category.NO_INJECTION,
)
FEEDFORWARD_MAZES = (Category.FEEDFORWARD, Category.FEEDFORWARD_INJECTED)
REPEATS = {  # nets whose training first repeats that of others
    Category.IMPLICIT: Category.DEEP,
    Category.PHANTOM: Category.DEEP,
    Category.IMPLICIT_AFTER_MIXED: Category.MIXED_RANDOM_DEPTH,
    Category.PHANTOM_AFTER_MIXED: Category.MIXED_RANDOM_DEPTH,
}
AFTER_MIXED = (Category.PHANTOM_AFTER_MIXED, Category.IMPLICIT_AFTER_MIXED)
CONTRASTS = (*FEEDFORWARD_MAZES, Category.NO_INJECTION)  # nets without weight tying or without injection
TIED = tuple(category for category in MAZE_CATEGORIES if category not in CONTRASTS)  # and injected
INDEPENDENT_MAZES = Category.MIXED_RANDOM_DEPTH  # the maze nets that promote path independence most
DEPENDENT_MAZES = Category.SHALLOW  # and least


def maze_nets(scale: Scale, *categories: Category) -> list[FigureNet]:
    """Return the maze nets of some categories, one for each seed."""
    return [
        replace(
            figure_net(category, replace(maze_recipe(scale, category), seed=seed)),
            origin=maze_recipe(scale, REPEATS[category]) if category in REPEATS else None,
        )
        for category in categories
        for seed in (scale.contrast_seeds if category in (*CONTRASTS, *AFTER_MIXED) else scale.maze_seeds)
    ]


def shown_maze_net(scale: Scale, category: Category) -> FigureNet:
    """Return the net of a category that represents it where only one net is shown."""
    return next(net for net in maze_nets(scale, category) if net.recipe.seed == scale.shown_seed)


def maze_recipe(scale: Scale, category: Category) -> Recipe:
    """Return the recipe of the maze nets of a category."""
    base, body, deep = scale.mazes, scale.mazes.net, scale.deep
    assert isinstance(body, ConvNet)
    base = replace(base, net=(body := replace(body, weight_norm=False)), depth=Fixed(deep))
    slow, slowest = (
        replace(base, optim=replace(base.optim, steps=steps)) for steps in (scale.slow_updates, scale.slowest_updates)
    )
    free = replace(body, injection="none")
    match category:
        case Category.DEEP:
            return base
        case Category.SHALLOW:
            return _shallow(slow, scale.shallow)
        case Category.DEEP_WEIGHT_NORM:
            return _with_weight_norm(slow)
        case Category.DEEP_GROUP_NORM:
            return replace(base, net=replace(body, norm="group"))
        case Category.SHALLOW_WEIGHT_NORM:
            return _shallow(_with_weight_norm(slow), scale.shallow)
        case Category.MIXED_RANDOM_DEPTH:
            optim = replace(base.optim, steps=scale.independent_updates)
            some = Backprop(last=max(1, 7 * deep // 12))  # the steps before it may be many
            return replace(base, start=Mixed(), depth=Uniform(2 * deep // 3, 7 * deep // 3), gradient=some, optim=optim)
        case Category.TRUNCATED:
            return replace(base, gradient=Backprop(last=max(1, deep // 2)))
        case Category.PROGRESSIVE:
            return replace(slow, extras=(Progressive(),))
        case Category.NO_INJECTION:
            return _evaluated_after(replace(slowest, net=free, start=Projected()), deep)
        case Category.FEEDFORWARD:
            return _feedforward(base, free, Projected())
        case Category.FEEDFORWARD_INJECTED:
            return _feedforward(base, body, base.start)
        case Category.IMPLICIT | Category.IMPLICIT_AFTER_MIXED:
            gradient = Implicit(solver=Broyden(), budget=Budget(scale.implicit_depth))
            return _after_unrolling(scale, maze_recipe(scale, REPEATS[category]), gradient)
        case Category.PHANTOM | Category.PHANTOM_AFTER_MIXED:
            return _after_unrolling(scale, maze_recipe(scale, REPEATS[category]), Phantom(steps=2, damping=0.75))
    raise ValueError(f"there are no maze nets of category {category!r}; use one of {', '.join(MAZE_CATEGORIES)}")


def _with_weight_norm(recipe: Recipe) -> Recipe:
    assert isinstance(recipe.net, ConvNet)
    return replace(recipe, net=replace(recipe.net, weight_norm=True))


def _shallow(recipe: Recipe, depth: int) -> Recipe:
    """Fewer steps, also in the evaluation that selects weights: such nets get worse with more steps."""
    return _evaluated_after(replace(recipe, depth=Fixed(depth)), depth)


def _evaluated_after(recipe: Recipe, steps: int) -> Recipe:
    evaluation = replace(
        recipe.evaluation,
        at=tuple((difficulty, steps) for difficulty, _ in recipe.evaluation.at),
        finally_at=tuple((difficulty, steps, *counts) for difficulty, _, *counts in recipe.evaluation.finally_at),
    )
    return replace(recipe, evaluation=evaluation)


def _feedforward(recipe: Recipe, body: ConvNet, start: Start) -> Recipe:
    """Layers with separate weights. Together they are one step, also in evaluations."""
    layers = Feedforward(body, recipe.depth.most)
    return _evaluated_after(replace(recipe, net=layers, depth=Fixed(1), start=start), 1)


def _after_unrolling(scale: Scale, base: Recipe, gradient: Gradient) -> Recipe:
    """Unroll first, and then train with Broyden's method and another gradient."""
    optim, unrolled = base.optim, base.gradient
    assert isinstance(unrolled, Backprop)
    return _evaluated_after(
        replace(
            base,
            solver=Broyden(),
            depth=Fixed(scale.implicit_depth),
            gradient=gradient,
            pretraining=Pretraining(optim.steps, base.depth, unrolled.last, optim.lr),
            optim=replace(optim, steps=optim.steps + scale.implicit_steps, lr=scale.implicit_rate),
        ),
        scale.implicit_depth,
    )
