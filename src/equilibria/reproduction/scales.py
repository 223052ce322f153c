"""Three sizes of the same reproduction: for tests, for a laptop, and the paper's own."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from equilibria.nets import ConvNet, DenseNet, GraphNet
from equilibria.solvers import Anderson
from equilibria.tasks import BlurryMNIST, EdgeCopy, MatrixInversion, Mazes, PrefixSum
from equilibria.training import RECIPES, Recipe
from equilibria.training.depths import Depth, Fixed, Uniform
from equilibria.training.recipe import Evaluation, Optim


class Factors(NamedTuple):
    """What is varied among the nets of one category."""

    rates: tuple[float, ...]
    depths: tuple[int, ...] = (6, 32)
    random_depths: tuple[Depth, ...] = (Uniform(3, 63), Uniform(32, 64))  # in the places of `depths`
    seeds: tuple[int, ...] = (0,)


class Trial(NamedTuple):
    """How much is measured of each net."""

    strings: int  # of each length
    steps: int  # of the large budget for strings
    mazes: tuple[int, ...]  # of each of the sizes 9, 13, 25, 31, 59
    maze_steps: tuple[int, ...]  # the large budget for each
    aligned_mazes: int  # of each size, that get an AA score
    restarts: int  # starts of an AA score
    attacked: int  # examples of Table 1
    attacked_steps: int  # of the path-independent nets there
    updates: int  # of L-BFGS
    solver_examples: int  # mazes in each of the runs that compare solvers
    solver_runs: int
    solver_steps: int
    vectors: int  # digits, matrices or graphs of each difficulty


@dataclass(frozen=True)
class Scale:
    """The recipes that everything else is derived from, and how much is measured."""

    name: str
    summary: str
    strings: Recipe  # unrolled from zero, backpropagated: the baseline of the prefix sums
    string_factors: Factors
    differentiated: Anderson  # that nets backpropagate through, where they use one
    free_strings: Recipe  # what the net without injection is made of
    mazes: Recipe  # unrolled from zero, backpropagated: what the categories of maze nets change
    settled_mazes: Recipe  # the net that is most path independent
    path_dependent_mazes: Recipe  # and those that are least
    path_dependent_strings: Recipe
    shallow: int  # layers of the shallow maze nets, and of the deep ones
    deep: int
    implicit_steps: int  # training steps with implicit gradients, after those of `settled_mazes`
    implicit_depth: int  # of Broyden's method, forward and backward
    implicit_rate: float
    digits: Recipe
    digit_factors: Factors
    inversion: Recipe
    inversion_factors: Factors
    edges: Recipe
    edge_factors: Factors
    trial: Trial


def _paper() -> Scale:
    steps = Optim(steps=30_000, batch=150, lr=1e-3, schedule="steps")
    epochs = Optim(steps=150_000, batch=50, lr=1e-3, schedule="steps", drops=(2 / 3,), drop=0.1)
    strings = Recipe(
        task=PrefixSum(),
        net=ConvNet(width=64, injection="add", norm="group"),
        depth=Fixed(32),
        optim=steps,
        pool=10_000,
        evaluation=Evaluation(finally_at=((32, 32, 1000, 100),)),
        source="paper, Appendix C; the width is not given there",
    )
    mazes = Recipe(
        task=Mazes(),
        net=ConvNet(width=128, injection="concat", blocks=2, norm="none", weight_norm=True, readout=3),
        depth=Fixed(32),
        optim=epochs,
        pool=50_000,
        select="best",
        evaluation=Evaluation(at=((9, 50),), every=1000, examples=500, finally_at=((9, 50, 1000, 100),)),
        source="paper, Appendix C",
    )
    return Scale(
        name="paper",
        summary="the paper's own settings: hours for a net, on a GPU",
        strings=strings,
        string_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
        differentiated=Anderson(memory=3),  # Appendix C
        free_strings=strings,
        mazes=mazes,
        settled_mazes=mazes,
        path_dependent_mazes=replace(mazes, name="mazes, path dependent", depth=Fixed(8)),
        path_dependent_strings=replace(strings, name="prefix sums, path dependent", depth=Fixed(15)),
        shallow=8,
        deep=32,
        implicit_steps=100_000,
        implicit_depth=40,
        implicit_rate=1e-3,
        digits=Recipe(
            task=BlurryMNIST(),
            net=DenseNet(width=512),
            optim=replace(steps, batch=128),
            evaluation=Evaluation(finally_at=((2.0, 100, 10_000, 100),)),
            source="paper, Appendix H; the width is not given there",
        ),
        digit_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
        inversion=Recipe(
            task=MatrixInversion(),
            net=DenseNet(width=512),
            optim=replace(steps, batch=128),
            evaluation=Evaluation(finally_at=((0.5, 100, 1000, 100),)),
            source="paper, Appendix I",
        ),
        inversion_factors=Factors(rates=(1e-3, 1e-4, 1e-5)),
        edges=Recipe(
            task=EdgeCopy(),
            net=GraphNet(width=128),
            optim=replace(steps, batch=128),
            evaluation=Evaluation(finally_at=((10, 100, 1000, 100),)),
            source="paper, Appendix J; the width is not given there",
        ),
        edge_factors=Factors(rates=(1e-3, 3.3e-4, 1e-4), seeds=(0, 1)),
        trial=Trial(
            strings=300,
            steps=512,
            mazes=(500, 500, 500, 500, 500),
            maze_steps=(50, 100, 400, 600, 800),
            aligned_mazes=500,
            restarts=10,
            attacked=500,
            attacked_steps=500,
            updates=50,
            solver_examples=100,
            solver_runs=10,
            solver_steps=200,
            vectors=1000,
        ),
    )


def _laptop(paper: Scale) -> Scale:
    """Narrower nets and fewer steps at higher rates."""
    short = Optim(steps=600, batch=64, lr=3e-3, schedule="steps")
    strings = replace(
        paper.strings,
        net=ConvNet(width=32, injection="add", norm="group"),
        optim=short,
        evaluation=Evaluation(finally_at=((32, 32, 200, 0),)),
        source="paper, Appendix C, with fewer and smaller steps at higher rates",
    )
    return Scale(
        name="laptop",
        summary="small nets and short trainings, for two cores without a GPU",
        strings=strings,
        string_factors=Factors(rates=(3e-3, 1e-3, 3e-4)),
        differentiated=Anderson(memory=3, constant_weights=True),  # otherwise string nets of 32 steps do not learn
        free_strings=replace(  # with group norm, in 900 steps at this rate, it does not learn
            strings,
            net=ConvNet(width=32, injection="add", norm="channel"),
            optim=replace(short, steps=3000, lr=1e-3),
        ),
        mazes=replace(
            paper.mazes,
            net=ConvNet(width=32, injection="concat", blocks=1, norm="channel", stride=2, padding="circular"),
            depth=Fixed(24),
            optim=Optim(steps=1200, batch=32, lr=1e-3, schedule="cosine", warmup=50, averaging=0.998, weight_decay=0.1),
            pool=0,
            evaluation=Evaluation(at=((9, 50), (13, 100)), every=300, examples=100, finally_at=((9, 50, 200, 0),)),
            source="paper, Appendix C, with a small net at half the resolution and a short training",
        ),
        settled_mazes=RECIPES["mazes/fast"],
        path_dependent_mazes=RECIPES["mazes/path_dependent"],
        path_dependent_strings=RECIPES["prefix_sum/path_dependent"],
        shallow=8,
        deep=24,
        implicit_steps=200,
        implicit_depth=40,
        implicit_rate=3e-5,
        digits=replace(
            paper.digits,
            net=DenseNet(width=128),
            optim=replace(short, steps=2400, batch=128, lr=1e-3),
            evaluation=Evaluation(finally_at=((2.0, 100, 2000, 0),)),
        ),
        digit_factors=Factors(rates=(3e-3, 1e-3, 3e-4), depths=(8,)),
        inversion=replace(
            paper.inversion,
            net=DenseNet(width=128),
            optim=replace(short, steps=1200, lr=1e-3),
            evaluation=Evaluation(finally_at=((0.5, 100, 500, 0),)),
        ),
        inversion_factors=Factors(rates=(3e-3, 1e-3, 3e-4), depths=(8,)),
        edges=replace(
            paper.edges,
            net=GraphNet(width=32),
            optim=replace(short, steps=500, lr=1e-3),
            evaluation=Evaluation(finally_at=((10, 100, 500, 0),)),
        ),
        edge_factors=Factors(rates=(3e-3, 1e-3, 3.3e-4), depths=(8,), seeds=(0, 1)),
        trial=paper.trial._replace(
            strings=40, mazes=(500, 500, 200, 40, 12), aligned_mazes=30, restarts=4, vectors=300
        ),
    )


def _smoke(laptop: Scale) -> Scale:
    """A few steps of the smallest nets that can be built: everything runs, and nothing is learned."""
    brief = Optim(steps=2, batch=4, lr=1e-3)

    def tiny(recipe: Recipe, **changes: Any) -> Recipe:
        first = recipe.evaluation.finally_at[0][0]
        evaluation = Evaluation(at=((first, 2),), every=2, examples=2, finally_at=((first, 2, 2, 0),))
        return replace(recipe, optim=brief, pool=0, evaluation=evaluation, **changes)

    def few(factors: Factors) -> Factors:
        return Factors(factors.rates[:1], (2, 3)[: len(factors.depths)], (Uniform(1, 2), Uniform(2, 3)), (0,))

    string = ConvNet(width=8, injection="add", norm="group", groups=2)
    maze = ConvNet(width=8, injection="concat", blocks=1, norm="channel", stride=2)
    return Scale(
        name="smoke",
        summary="everything once, in seconds, with nets that have learned nothing: for tests",
        strings=tiny(laptop.strings, net=string),
        string_factors=few(laptop.string_factors),
        differentiated=laptop.differentiated,
        free_strings=tiny(laptop.free_strings, net=string),
        mazes=tiny(laptop.mazes, net=maze),
        settled_mazes=tiny(laptop.settled_mazes, net=maze, depth=Fixed(3)),
        path_dependent_mazes=tiny(laptop.path_dependent_mazes, net=maze, depth=Fixed(2)),
        path_dependent_strings=tiny(laptop.path_dependent_strings, net=string, depth=Fixed(2)),
        shallow=2,
        deep=3,
        implicit_steps=1,
        implicit_depth=3,
        implicit_rate=1e-3,
        digits=tiny(laptop.digits, net=DenseNet(width=16)),
        digit_factors=few(laptop.digit_factors),
        inversion=tiny(laptop.inversion, net=DenseNet(width=16)),
        inversion_factors=few(laptop.inversion_factors),
        edges=tiny(laptop.edges, net=GraphNet(width=8)),
        edge_factors=few(laptop.edge_factors),
        trial=Trial(
            strings=4,
            steps=8,
            mazes=(4, 4, 3, 2, 2),
            maze_steps=(4, 5, 6, 6, 6),
            aligned_mazes=3,
            restarts=2,
            attacked=3,
            attacked_steps=6,
            updates=2,
            solver_examples=8,
            solver_runs=2,
            solver_steps=6,
            vectors=4,
        ),
    )


PAPER = _paper()
LAPTOP = _laptop(PAPER)
SMOKE = _smoke(LAPTOP)
SCALES: dict[str, Scale] = {scale.name: scale for scale in (SMOKE, LAPTOP, PAPER)}
