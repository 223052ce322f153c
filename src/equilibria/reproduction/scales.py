"""Three scales of the reproduction: for tests, for a laptop, and as in the paper."""

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from equilibria.nets import ConvNet, DenseNet, GraphNet, Net
from equilibria.solvers import Anderson
from equilibria.tasks import BlurryMNIST, EdgeCopy, MatrixInversion, Mazes, PrefixSum, Task
from equilibria.training import RECIPES, Recipe
from equilibria.training.depths import Depth, Fixed, Uniform
from equilibria.training.extras import ScaledLoss
from equilibria.training.recipe import Evaluation, Optim


class Factors(NamedTuple):
    """What is varied among the nets of one category."""

    rates: tuple[float, ...]
    depths: tuple[int, ...] = (6, 32)
    random_depths: tuple[Depth, ...] = (Uniform(3, 63), Uniform(32, 64))  # instead of `depths`, one for each
    seeds: tuple[int, ...] = (0,)


class Trial(NamedTuple):
    """How much is measured, with the name of each number in reports."""

    strings: Annotated[int, "strings of each length"]
    steps: Annotated[int, "large step budget for strings"]
    mazes: Annotated[tuple[int, ...], "mazes of size 9x9, 13x13, 25x25, 31x31, 59x59"]
    maze_steps: Annotated[tuple[int, ...], "large step budget for each of these sizes"]
    aligned_mazes: Annotated[int, "mazes of each size with an AA score"]
    broyden_aligned: Annotated[int, "mazes of each size with an AA score in Table 2"]
    restarts: Annotated[int, "restarts per AA score"]
    attacked: Annotated[int, "strings in Table 1"]
    attacked_mazes: Annotated[int, "mazes in Table 1"]
    attacked_steps: Annotated[int, "steps of the path-independent nets in Table 1"]
    updates: Annotated[int, "L-BFGS updates of an attack"]
    solver_examples: Annotated[int, "mazes in each run that compares solvers"]
    solver_runs: Annotated[int, "runs that compare solvers"]
    solver_steps: Annotated[int, "steps in these runs"]
    settling: Annotated[tuple[int, ...], "mazes of size 13x13, 25x25 on which plain iteration may settle"]
    vectors: Annotated[int, "digits, matrices or graphs of each difficulty"]


@dataclass(frozen=True)
class Scale:
    """The recipes that all nets are derived from, and how much is measured."""

    name: str
    summary: str
    strings: Recipe  # unrolled from zero, backpropagated: the baseline of the prefix sums
    string_factors: Factors  # seeds after the first apply to implicit nets only
    further_rates: Annotated[tuple[float, ...], "prefix sums: further rates of some nets, with one seed"]
    penalty_factors: Factors  # of the prefix-sum nets with a penalty, which are expensive
    penalties: Annotated[tuple[float, ...], "prefix sums: weights of the alignment penalty"]
    factorial_rates: tuple[float, ...]  # of the prefix-sum nets that vary how implicit gradients are used
    differentiated: Anderson  # the solver that nets backpropagate through
    free_strings: Recipe  # the base of the net without injection
    mazes: Recipe  # unrolled from zero, backpropagated: the base of the maze nets
    maze_seeds: Annotated[tuple[int, ...], "mazes: seeds of each net"]
    contrast_seeds: Annotated[
        tuple[int, ...],
        "mazes: seeds of feedforward nets, of nets without injection, and of implicit nets after mixed starts",
    ]
    shown_seed: Annotated[int, "mazes: seed of the nets that are attacked and solved by two solvers"]
    slow_updates: Annotated[int, "mazes: updates of shallow, progressive and weight-norm nets, which learn slowly"]
    independent_updates: Annotated[int, "mazes: updates of nets from mixed starts at random depths"]
    slowest_updates: Annotated[int, "mazes: updates of nets without injection, which learn most slowly"]
    path_dependent_strings: Recipe  # the least path-independent net
    unlearned_mazes: Recipe  # a net at the beginning of its training
    shallow: Annotated[int, "mazes: steps of the shallow nets"]
    deep: Annotated[int, "mazes: steps of the deep nets"]
    implicit_steps: Annotated[int, "mazes: updates with implicit or phantom gradients, after unrolled training"]
    implicit_depth: Annotated[int, "mazes: steps of Broyden's method in training"]
    implicit_rate: Annotated[float, "mazes: learning rate of these updates"]
    digits: Recipe
    digit_factors: Factors
    inversion: Recipe
    inversion_factors: Factors
    edges: Recipe
    edge_factors: Factors
    mean_edge_factors: Factors  # of the graph nets with means
    trial: Trial


def _vectors(task: Task, net: Net, difficulty: int | float, examples: int, source: str) -> Recipe:
    """The paper's recipe for digits, matrices or graphs."""
    evaluation = Evaluation(finally_at=((difficulty, 100, examples, 100),))
    return Recipe(task=task, net=net, optim=replace(_STEPS, batch=128), evaluation=evaluation, source=source)


_STEPS = Optim(steps=30_000, batch=150, lr=1e-3, schedule="steps")
_STRINGS = Recipe(
    task=PrefixSum(),
    net=ConvNet(width=64, injection="add", norm="group"),
    depth=Fixed(32),
    optim=_STEPS,
    pool=10_000,
    evaluation=Evaluation(finally_at=((32, 32, 1000, 100),)),
    source="paper, Appendix C; the width is not given there",
)
_MAZES = Recipe(
    task=Mazes(),
    net=ConvNet(width=128, injection="concat", blocks=2, norm="none", readout=3),
    depth=Fixed(32),
    optim=Optim(steps=150_000, batch=50, lr=1e-3, schedule="steps", drops=(2 / 3,), drop=0.1),
    pool=50_000,
    select="best",
    evaluation=Evaluation(at=((9, 50),), every=1000, examples=500, finally_at=((9, 50, 1000, 100),)),
    source="paper, Appendix C",
)
PAPER = Scale(
    name="paper",
    summary="the settings of the paper: hours per net on a GPU",
    strings=_STRINGS,
    string_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
    further_rates=(),
    penalty_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
    penalties=(1.0,),
    factorial_rates=(1e-3, 1e-4, 1e-5),
    differentiated=Anderson(memory=3),  # Appendix C
    free_strings=_STRINGS,
    mazes=_MAZES,
    maze_seeds=(0, 1, 2),
    contrast_seeds=(0, 1, 2),
    shown_seed=0,
    slow_updates=_MAZES.optim.steps,
    independent_updates=_MAZES.optim.steps,
    slowest_updates=_MAZES.optim.steps,
    path_dependent_strings=replace(_STRINGS, name="prefix sums, path dependent", depth=Fixed(15)),
    unlearned_mazes=replace(_MAZES, optim=replace(_MAZES.optim, steps=100)),
    shallow=8,
    deep=32,
    implicit_steps=100_000,
    implicit_depth=40,
    implicit_rate=1e-3,
    digits=_vectors(BlurryMNIST(), DenseNet(width=512), 2.0, 10_000, "paper, Appendix H; the width is not given there"),
    digit_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
    inversion=_vectors(MatrixInversion(), DenseNet(width=512), 0.5, 1000, "paper, Appendix I"),
    inversion_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
    edges=_vectors(
        EdgeCopy(), GraphNet(width=128, aggregate="add"), 10, 1000, "paper, Appendix J; the width is not given there"
    ),
    edge_factors=Factors(rates=(1e-3, 3.3e-4, 1e-4), seeds=(0, 1)),
    mean_edge_factors=Factors(rates=(1e-3, 3.3e-4, 1e-4), seeds=(0, 1)),
    trial=Trial(
        strings=300,
        steps=512,
        mazes=(500, 500, 500, 500, 500),
        maze_steps=(50, 100, 400, 600, 800),
        aligned_mazes=500,
        broyden_aligned=500,
        restarts=10,
        attacked=500,
        attacked_mazes=500,
        attacked_steps=500,
        updates=50,
        solver_examples=100,
        solver_runs=10,
        solver_steps=200,
        settling=(5000, 4000),
        vectors=1000,
    ),
)


def _shorter(recipe: Recipe, net: Net, optim: Optim, examples: int) -> Recipe:
    """A recipe with a smaller net and fewer training steps, evaluated on fewer examples."""
    (difficulty, steps, *_), *_ = recipe.evaluation.finally_at
    evaluation = Evaluation(finally_at=((difficulty, steps, examples, 0),))
    return replace(recipe, net=net, optim=optim, evaluation=evaluation)


_FAST = RECIPES["mazes/fast"]
_TRIAL = PAPER.trial._replace(strings=40, restarts=4, attacked_mazes=120, vectors=300)
_COSINE = Optim(steps=2000, batch=50, lr=1e-3, schedule="cosine", warmup=50)
_SHORT = Optim(steps=600, batch=64, lr=3e-3, schedule="steps")
_SMALL_STRINGS = replace(
    _shorter(_STRINGS, ConvNet(width=32, injection="add", norm="group"), _SHORT, 200),
    source="paper, Appendix C, with fewer and smaller steps at higher rates",
)
LAPTOP = replace(
    PAPER,
    name="laptop",
    summary="small nets and short training, for two cores without a GPU",
    strings=_SMALL_STRINGS,
    string_factors=Factors(rates=(3e-3, 1e-3, 3e-4), seeds=(0, 1)),
    further_rates=(4e-3, 2e-3),
    penalty_factors=Factors(rates=(3e-3, 1e-3), depths=(6,), random_depths=(Uniform(3, 63),)),
    penalties=(0.01, 0.03, 0.1),
    factorial_rates=(3e-3, 2e-3, 1e-3),
    differentiated=Anderson(memory=3, constant_weights=True),  # otherwise string nets of 32 steps do not learn
    free_strings=replace(  # it does not learn with group norm in 900 steps at this rate
        _SMALL_STRINGS,
        net=ConvNet(width=32, injection="add", norm="channel"),
        optim=replace(_SHORT, steps=3000, lr=1e-3),
    ),
    mazes=replace(
        _MAZES,
        net=ConvNet(width=32, injection="concat", blocks=2, norm="none", stride=2),
        depth=Fixed(24),
        optim=replace(_COSINE, steps=800, averaging=0.99),
        pool=0,
        evaluation=Evaluation(at=((9, 50),), every=200, examples=100, finally_at=((9, 50, 200, 0),)),
        source="paper, Appendix C, with a small net at half the resolution and a short training",
    ),
    maze_seeds=(0, 1, 2),
    contrast_seeds=(0, 1),
    shown_seed=2,  # of the nets from mixed starts, the one with the highest AA, which needs no labels
    slow_updates=1200,
    independent_updates=2000,
    slowest_updates=2400,
    path_dependent_strings=RECIPES["prefix_sum/path_dependent"],
    unlearned_mazes=_shorter(replace(_FAST, select="last"), _FAST.net, replace(_FAST.optim, steps=150), 100),
    deep=24,
    implicit_steps=600,
    implicit_rate=3e-4,
    digits=_shorter(PAPER.digits, DenseNet(width=128), replace(_SHORT, steps=2400, batch=128, lr=1e-3), 2000),
    digit_factors=Factors(rates=(3e-3, 1e-3, 3e-4), depths=(8,)),
    inversion=replace(
        _shorter(PAPER.inversion, DenseNet(width=256), replace(_COSINE, batch=64, warmup=200), 500),
        extras=(ScaledLoss(100.0),),  # the loss is about .014
    ),
    inversion_factors=Factors(rates=(3e-3, 2e-3, 1e-3, 3e-4), depths=(8,)),
    edges=_shorter(PAPER.edges, GraphNet(width=32, aggregate="add"), replace(_SHORT, steps=500, lr=1e-3), 500),
    # With sums, nets do not learn at 3.3e-4 in 500 steps: their errors are those of a constant, or they diverge.
    edge_factors=Factors(rates=(3e-3, 1e-3), depths=(8,), seeds=(0, 1)),
    mean_edge_factors=Factors(rates=(3e-3, 1e-3, 3.3e-4), depths=(8,), seeds=(0, 1)),
    trial=_TRIAL._replace(mazes=(200, 200, 200, 20, 8), aligned_mazes=30),
)


def _tiny(recipe: Recipe, net: Net, depth: int = 0) -> Recipe:
    """A recipe with only two training steps."""
    first = recipe.evaluation.finally_at[0][0]
    evaluation = Evaluation(at=((first, 2),), every=2, examples=2, finally_at=((first, 2, 2, 0),))
    optim = Optim(steps=2, batch=4, lr=1e-3)
    changed = replace(recipe, net=net, optim=optim, pool=0, evaluation=evaluation)
    return replace(changed, depth=Fixed(depth)) if depth else changed


def _few(factors: Factors) -> Factors:
    count = len(factors.depths)
    return Factors(factors.rates[:1], (2, 3)[:count], (Uniform(1, 2), Uniform(2, 3))[:count], (0,))


_TINY_STRING_NET = ConvNet(width=8, injection="add", norm="group", groups=2)
_TINY_MAZE_NET = ConvNet(width=8, injection="concat", blocks=1, norm="none", stride=2)
SMOKE = replace(
    LAPTOP,
    name="smoke",
    summary="everything once with untrained nets, in seconds, for tests",
    strings=_tiny(LAPTOP.strings, _TINY_STRING_NET),
    string_factors=_few(LAPTOP.string_factors),
    further_rates=(),
    penalty_factors=_few(LAPTOP.penalty_factors),
    penalties=(0.1,),
    factorial_rates=LAPTOP.factorial_rates[:1],
    free_strings=_tiny(LAPTOP.free_strings, _TINY_STRING_NET),
    mazes=_tiny(LAPTOP.mazes, _TINY_MAZE_NET),
    maze_seeds=(0, 1),
    contrast_seeds=(0,),
    shown_seed=0,
    slow_updates=2,
    independent_updates=2,
    slowest_updates=2,
    path_dependent_strings=_tiny(LAPTOP.path_dependent_strings, _TINY_STRING_NET, depth=2),
    unlearned_mazes=_tiny(LAPTOP.unlearned_mazes, _TINY_MAZE_NET, depth=2),
    shallow=2,
    deep=3,
    implicit_steps=1,
    implicit_depth=3,
    implicit_rate=1e-3,
    digits=_tiny(LAPTOP.digits, DenseNet(width=16)),
    digit_factors=_few(LAPTOP.digit_factors),
    inversion=_tiny(LAPTOP.inversion, DenseNet(width=16)),
    inversion_factors=_few(LAPTOP.inversion_factors),
    edges=_tiny(LAPTOP.edges, GraphNet(width=8)),
    edge_factors=_few(LAPTOP.edge_factors),
    mean_edge_factors=_few(LAPTOP.mean_edge_factors),
    trial=Trial(
        strings=4,
        steps=8,
        mazes=(4, 4, 3, 2, 2),
        maze_steps=(4, 5, 6, 6, 6),
        aligned_mazes=3,
        broyden_aligned=3,
        restarts=2,
        attacked=3,
        attacked_mazes=3,
        attacked_steps=6,
        updates=2,
        solver_examples=8,
        solver_runs=2,
        solver_steps=6,
        settling=(8, 4),
        vectors=4,
    ),
)
SCALES: dict[str, Scale] = {scale.name: scale for scale in (SMOKE, LAPTOP, PAPER)}
