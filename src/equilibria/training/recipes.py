"""The recipes of the library; `results/` has their trained nets."""

from dataclasses import replace

from equilibria.gradients import Backprop
from equilibria.nets import ConvNet, DenseNet, GraphNet, MatrixNet
from equilibria.plugins import extensible
from equilibria.tasks import BlurryMNIST, EdgeCopy, MatrixInversion, Mazes, PrefixSum
from equilibria.training.depths import Fixed, Uniform
from equilibria.training.extras import StateNoise
from equilibria.training.measurement import Final
from equilibria.training.recipe import Evaluation, Optim, Recipe
from equilibria.training.starts import Mixed, Zeros

SEQUENCE_NET = ConvNet(width=32, injection="concat", blocks=1, norm="channel")
IMAGE_NET = replace(SEQUENCE_NET, stride=2)

PREFIX_SUM = Recipe(
    name="prefix_sum/fast",
    task=PrefixSum(),
    net=SEQUENCE_NET,
    start=Mixed(),
    depth=Uniform(3, 24),
    optim=Optim(steps=600, batch=150, lr=1e-3, schedule="cosine", warmup=50, averaging=0.99),
    evaluation=Evaluation(
        at=((64, 100), (256, 300)),
        every=200,
        finally_at=(
            (16, 50, 1000, 100),
            (32, 50, 1000, 100),
            (64, 100, 1000, 100),
            (128, 150, 1000, 100),
            (256, 250, 1000, 50),
            (512, 500, 1000, 24),
            (1024, 1000, 1000, 12),
        ),
    ),
    source="cell: paper, Appendix B; norm over the channels of each position, depth and rate from trials (docs/LOG.md)",
)

MAZES = Recipe(
    name="mazes/fast",
    task=Mazes(),
    net=replace(IMAGE_NET, padding="circular", blocks=3),
    start=Mixed(),
    depth=Uniform(12, 28),  # enough steps for every 9x9 maze
    gradient=Backprop(last=8),
    extras=(StateNoise(1.0, share=0.5),),
    optim=Optim(steps=3200, batch=50, lr=1e-3, schedule="cosine", warmup=50, averaging=0.998, weight_decay=0.1),
    select="alignment",
    evaluation=Evaluation(
        at=((9, 50), (41, 300)),
        every=400,
        examples=60,
        finally_at=(
            (9, 50, 1000, 100),
            (13, 100, 1000, 100),
            (25, 400, 1000, 24),
            (31, 600, 100, 0),
            (59, 800, 200, 0),
            (101, 1500, 50, 0),
        ),
    ),
    source="steps at test up to 59x59: paper, Appendix C; the small net and its training from trials (docs/LOG.md)",
)

BLURRY_MNIST = Recipe(
    name="blurry_mnist/fast",
    task=BlurryMNIST(),
    net=DenseNet(width=256),
    start=Mixed(),
    depth=Uniform(3, 12),
    optim=Optim(steps=6000, batch=128, lr=2e-3, schedule="cosine", warmup=200, averaging=0.998, weight_decay=0.01),
    evaluation=Evaluation(
        at=((2.0, 50), (3.5, 50), (5.5, 50)),
        every=1000,
        examples=1000,
        finally_at=tuple((sigma, 100, 10_000, 200) for sigma in BlurryMNIST().test_difficulties),
    ),
    source="fully connected residual cell: paper, Appendix H; the rest from trials (docs/LOG.md)",
)

MATRIX_INVERSION = Recipe(
    name="matrix_inversion/fast",
    task=MatrixInversion(),
    net=MatrixNet(channels=1, powers=5),
    start=Mixed(scale=0.3),
    depth=Uniform(8, 32),
    optim=Optim(steps=1500, batch=64, lr=3e-2, schedule="cosine", warmup=50, clip=0.1),
    evaluation=Evaluation(
        at=((0.5, 100), (0.1, 500)),
        every=250,
        finally_at=((0.5, 100, 1000, 100), (0.5, 500, 1000, 100), (0.1, 100, 1000, 100), (0.1, 500, 1000, 100)),
    ),
    source="task: paper, Appendix I; a cell that multiplies matrices is ours",
)

EDGE_COPY = Recipe(
    name="edge_copy/fast",
    task=EdgeCopy(),
    net=GraphNet(width=32),
    start=Mixed(),
    depth=Uniform(3, 12),
    optim=Optim(steps=2000, batch=64, lr=3e-3, schedule="cosine", warmup=50, averaging=0.99),
    evaluation=Evaluation(
        at=((10, 50), (15, 50), (30, 50)),
        every=500,
        finally_at=((10, 100, 1000, 100), (15, 100, 1000, 100), (30, 100, 1000, 100)),
    ),
    source="GINE cell: paper, Appendix J; means instead of sums, and the rest, from trials (docs/LOG.md)",
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        PREFIX_SUM,
        replace(
            PREFIX_SUM,
            name="prefix_sum/quick",
            optim=replace(PREFIX_SUM.optim, steps=900),
            evaluation=Evaluation(at=((64, 100),), every=100, finally_at=((32, 50, 100, 50), (512, 350, 24, 12))),
            source="prefix_sum/fast, shorter: for the quickstart",
        ),
        replace(
            PREFIX_SUM,
            name="prefix_sum/path_dependent",
            net=replace(SEQUENCE_NET, norm="none", weight_norm=True),
            start=Zeros(),
            depth=Fixed(16),
            evaluation=Evaluation(
                at=((32, 16), (32, 64)),
                every=200,
                finally_at=((32, 16, 1000, 100), (32, 64, 1000, 100), (64, 32, 1000, 100), (64, 100, 1000, 100)),
            ),
            source="a control: right at the depth of its training, and lost from other starts and with more steps",
        ),
        MAZES,
        replace(
            MAZES,
            name="mazes/path_dependent",
            net=replace(IMAGE_NET, norm="none", weight_norm=True),
            start=Zeros(),
            depth=Fixed(15),
            gradient=Backprop(),
            extras=(),
            optim=replace(MAZES.optim, steps=1500, weight_decay=0.0),
            select="last",
            evaluation=Evaluation(
                at=((9, 15), (9, 60), (13, 20)),
                every=500,
                finally_at=((9, 15, 1000, 100), (9, 60, 1000, 100), (13, 20, 1000, 100), (13, 100, 1000, 100)),
            ),
            source="a control: weight norm, depth 15 from zero; the paper's maze net of Table 1 has 8 layers",
        ),
        replace(
            MAZES,
            name="mazes/percolation",
            task=Mazes(family="percolation"),
            net=replace(IMAGE_NET, norm="none", padding="circular", blocks=2),
            depth=Uniform(12, 28),
            gradient=Backprop(last=12),
            extras=(),
            optim=replace(MAZES.optim, steps=1500, averaging=0.99, weight_decay=0.0),
            evaluation=Evaluation(
                at=((9, 50), (13, 100)),
                every=250,
                examples=100,
                finally_at=((9, 50, 1000, 100), (13, 100, 1000, 100), (25, 400, 1000, 24)),
            ),
            source="mazes with loops; the cell has no norm, as in the paper, and learns without noise (docs/LOG.md)",
        ),
        BLURRY_MNIST,
        MATRIX_INVERSION,
        replace(
            MATRIX_INVERSION,
            name="matrix_inversion/dense",
            net=DenseNet(width=512),
            optim=Optim(steps=4000, batch=128, lr=1e-3, schedule="cosine", warmup=50, averaging=0.99),
            start=Mixed(),
            depth=Uniform(3, 12),
            source="cell: paper, Appendix I; shorter and at a random depth",
        ),
        EDGE_COPY,
    )
}
LIBRARY = tuple(RECIPES.values())  # without those of plugins
extensible("recipes", Recipe, RECIPES)


def default_final(recipe: Recipe) -> Final:
    """What to measure after training unless the user says otherwise: all of it only for a recipe of the library."""
    return "full" if recipe.id in {replace(one, seed=recipe.seed).id for one in LIBRARY} else "quick"
