"""`equilibria quickstart`: train a small net and show how it scales with steps."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from equilibria.cli.flags import CommandFlags, make_console
from equilibria.cli.progress_bar import TrainingBar
from equilibria.cli.train import Train, saying_how_to_resume
from equilibria.training import RECIPES, Run, train
from equilibria.training.measurement import scores_by_steps

LENGTHS = STEPS = (16, 32, 64, 128, 256, 512)
EXAMPLES = 50


@dataclass(frozen=True)
class Quickstart(CommandFlags):
    """Train a net that adds bits, then test it on longer strings and with more steps than in training.

    Takes a few minutes on a laptop. Writes the run and a plot to a folder.
    """

    out: Path = Path("runs/quickstart")
    """Folder of the run and of accuracy.png."""
    seed: int = 0
    """Seed of the weights and the data."""

    def run(self) -> int:
        self.require_at_least(seed=0)
        recipe = replace(RECIPES["prefix_sum/quick"], seed=self.seed)
        console = make_console()
        console.print(
            "The task: the running parity of a string of bits. Training uses strings of 32 bits and up to 24 steps. "
            "The net is then tested on strings of up to 512 bits, with up to 512 steps.\n"
        )
        with saying_how_to_resume(Train(recipe.name, change=recipe)), TrainingBar(console, recipe) as bar:
            run = train(recipe, self.out, on_progress=bar)
        model = run.model()
        with console.status("solving longer strings"):
            grid = {bits: scores_by_steps(model, recipe.task, bits, STEPS, examples=EXAMPLES) for bits in LENGTHS}
        self._show(run, grid, console)
        picture = self.out / "accuracy.png"
        draw(grid, picture)
        console.print(f"\nPlot: {picture}    Run: {self.out}    Next: equilibria evaluate {self.out}", soft_wrap=True)
        return 0

    def _show(self, run: Run, grid: dict[int, list[float]], console: Console) -> None:
        console.print(f"\nCorrect strings (of {EXAMPLES}); rows: bits, columns: steps")
        table = Table(box=None)
        table.add_column("bits", justify="right")
        for steps in STEPS:
            table.add_column(str(steps), justify="right")
        for length, scores in grid.items():
            table.add_row(str(length), *(f"{score:.0%}" for score in scores))
        console.print(table)
        longest = next((one for one in run.summary["measurements"] if one["difficulty"] == LENGTHS[-1]), None)
        if longest and longest["alignment"] is not None:
            console.print(
                f"AA score at {LENGTHS[-1]} bits: [bold]{longest['alignment']:.4f}[/bold]. 1 means that the net "
                "reaches the same state from every start: it is path independent, and more steps do not hurt."
            )


def draw(grid: dict[int, list[float]], path: Path) -> None:
    """Plot accuracy against steps, one line per length."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    colours = mpl.colormaps["viridis"](torch.linspace(0, 0.9, len(grid)).tolist())
    for colour, (length, scores) in zip(colours, grid.items(), strict=True):
        axes.plot(STEPS, [100 * score for score in scores], marker="o", color=colour, label=f"{length} bits")
    axes.axvspan(3, 24, color="0.9", label="steps in training")
    axes.set(xscale="log", xlabel="steps", ylabel="correct strings (%)", ylim=(-3, 103))
    axes.set_xscale("log", base=2)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)
