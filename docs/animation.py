"""Draw docs/figures/mazes.gif: two nets trained on 9x9 mazes solve a larger one. `make animation` runs it.

Both nets are in results/mazes. Teal marks what a net puts on the path, red what is wrong.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d

import equilibria
from equilibria import Budget, Keep
from equilibria.tasks import Batch, Mazes
from equilibria.tasks.mazes import GREEN, RED, is_open

HERE = Path(__file__).parent
NETS = {"Path independent": "fast", "Path dependent": "path_dependent"}
SIZE, SEED = 31, 7
STEPS = [*range(0, 60, 2), *range(60, 221, 4), *range(232, 401, 12)]  # shown; the solve takes every step
HOLD = 25  # frames at the end
MILLISECONDS = 90

CELL, MARGIN, HEADER, CURVE = 11, 18, 66, 46  # pixels
BACK, PANEL, WALL, OPEN = "#0a0d14", "#111723", "#0a0e16", "#222c40"
TEXT, SOFT, LINE = "#e8ecf4", "#95a1b8", "#243047"
GOOD, BAD, BEGIN, END = "#2dd4bf", "#ff6b5e", "#58e08b", "#ff4d6d"
SHADES = 5  # levels of certainty; few colours keep the file small


@dataclass(frozen=True)
class Solve:
    """What one net answers at the steps that are shown."""

    title: str
    marked: Tensor  # (steps, side, side): how certain the net is that a place is on the path
    wrong: Tensor  # (steps, side, side) bool
    right: Tensor  # (steps,): the share of open pixels that are right

    def verdict(self, index: int) -> str:
        """One line about the answer at a step."""
        share = self.right[index].item()
        return "solved" if share == 1 else f"{int(100 * share)} % of the pixels right"


def solve(title: str, net: str, batch: Batch) -> Solve:
    """Solve the maze and keep the answers of all steps."""
    model = equilibria.load(HERE.parent / "results" / "mazes" / net / "seed-0")
    with torch.no_grad():
        kept = model.equilibrium(batch.x, budget=Budget(STEPS[-1]), keep=Keep(STEPS, of=model.readout)).kept
    logits = torch.cat([kept[step] for step in STEPS])  # (steps, 2, h, w)
    open_ = is_open(batch.x)
    certain = logits.softmax(1)[:, 1:] * open_
    wrong = ((logits.argmax(1) != batch.y) & open_)[:, None].float()
    marked, mistakes = avg_pool2d(certain[..., 1:-1, 1:-1], 2), max_pool2d(wrong[..., 1:-1, 1:-1], 2)
    shares = torch.stack([Mazes().partial_score(answer[None], batch)[0] for answer in logits])
    return Solve(title, marked[:, 0], mistakes[:, 0] > 0, shares)


def blend(one: str, other: str, share: float) -> tuple[int, ...]:
    colours = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (one, other)]
    return tuple(round(a + (b - a) * share) for a, b in zip(*colours, strict=True))


def font(size: int, weight: str = "regular") -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(findfont(FontProperties(family=["Inter", "DejaVu Sans"], weight=weight)), size)


def draw_maze(draw: ImageDraw.ImageDraw, batch: Batch, solve: Solve, index: int, left: int, top: int) -> None:
    open_ = is_open(batch.x)[0, 1:-1:2, 1:-1:2]
    colours = batch.x[0, :, 1:-1:2, 1:-1:2].permute(1, 2, 0)
    ends = {GREEN: BEGIN, RED: END}
    for row, column in open_.nonzero().tolist():
        x, y = left + CELL * column, top + CELL * row
        shade = round(solve.marked[index, row, column].item() * SHADES) / SHADES
        paint = blend(OPEN, BAD if solve.wrong[index, row, column] else GOOD, shade)
        draw.rectangle((x, y, x + CELL - 1, y + CELL - 1), fill=paint)
        if solve.wrong[index, row, column] and shade < 0.5:  # on the path, but not marked
            draw.ellipse((x + 3, y + 3, x + CELL - 4, y + CELL - 4), fill=BAD)
        end = ends.get(tuple(colours[row, column].tolist()))
        if end:
            draw.ellipse((x - 2, y - 2, x + CELL + 1, y + CELL + 1), fill=end, outline=TEXT)


def draw_curve(draw: ImageDraw.ImageDraw, solve: Solve, index: int, left: int, top: int, width: int) -> None:
    """The share of right pixels up to this step, on an axis from 40 % to 100 %."""
    bottom = top + CURVE
    draw.line((left, bottom, left + width, bottom), fill=LINE)
    draw.line((left, top, left + width, top), fill=LINE)
    draw.text(
        (left + width, bottom + 5), f"pixels right, 40 to 100 %, in {STEPS[-1]} steps", SOFT, font(11), anchor="ra"
    )
    points = []
    for step, share in zip(STEPS[: index + 1], solve.right.tolist(), strict=False):
        height = max(share - 0.4, 0) / 0.6
        points.append((left + width * step / STEPS[-1], bottom - CURVE * height))
    colour = GOOD if solve.right[index] == 1 else BAD
    if len(points) > 1:
        draw.line(points, fill=colour, width=2, joint="curve")
    x, y = points[-1]
    draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=colour)


def frame(batch: Batch, solves: list[Solve], index: int) -> Image.Image:
    side = CELL * solves[0].marked.shape[-1]
    width, height = 2 * side + 3 * MARGIN, HEADER + side + CURVE + 3 * MARGIN + 4
    image = Image.new("RGB", (width, height), BACK)
    draw = ImageDraw.Draw(image)
    for number, solve in enumerate(solves):
        left = MARGIN + number * (side + MARGIN)
        draw.text((left, 12), solve.title, font=font(19, "semibold"), fill=TEXT)
        colour = GOOD if solve.right[index] == 1 else BAD
        draw.text((left, 39), f"step {STEPS[index]}", font=font(15), fill=SOFT)
        draw.text((left + 80, 39), solve.verdict(index), font=font(15), fill=colour)
        draw.rectangle((left, HEADER, left + side - 1, HEADER + side - 1), fill=WALL)
        draw_maze(draw, batch, solve, index, left, HEADER)
        draw_curve(draw, solve, index, left, HEADER + side + MARGIN, side)
    return image


def main() -> None:
    batch = Mazes().sample(1, SIZE, torch.Generator().manual_seed(SEED))
    solves = [solve(title, net, batch) for title, net in NETS.items()]
    frames = [frame(batch, solves, index) for index in range(len(STEPS))]
    every = Image.new("RGB", (frames[0].width, 4 * frames[0].height))  # a palette that fits all frames
    for number in range(4):
        every.paste(frames[number * (len(frames) - 1) // 3], (0, number * frames[0].height))
    palette = every.quantize(64)
    indexed = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in frames]
    path = HERE / "figures" / "mazes.gif"
    durations = [MILLISECONDS] * (len(indexed) - 1) + [HOLD * MILLISECONDS]
    indexed[0].save(path, save_all=True, append_images=indexed[1:], duration=durations, loop=0, optimize=False)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(indexed)} frames")


if __name__ == "__main__":
    main()
