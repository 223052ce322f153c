"""Mazes per second, against maze-dataset 1.4.2, in one process on one thread.

    pip install -c constraints.txt '.[bench-data]'
    python benchmarks/data.py [--json FILE]

Both carve depth-first mazes, choose two cells, find the path and draw the picture; maze-dataset one maze at a time, as
it is meant to be used, `Mazes` a batch at a time.
"""

from collections.abc import Callable

import torch
from harness import arguments, median_ratio, write
from maze_dataset import SolvedMaze  # pyright: ignore[reportMissingImports]
from maze_dataset.generation import LatticeMazeGenerators  # pyright: ignore[reportMissingImports]

from equilibria.tasks import Mazes

TARGET = 50.0


def theirs(size: int, count: int) -> Callable[[], object]:
    cells = (size + 1) // 2

    def run() -> None:
        for _ in range(count):
            maze = LatticeMazeGenerators.gen_dfs((cells, cells))
            SolvedMaze.from_lattice_maze(maze, maze.generate_random_path(endpoints_not_equal=True)).as_pixels()

    return run


def ours(size: int, count: int) -> Callable[[], object]:
    rng = torch.Generator().manual_seed(0)
    return lambda: Mazes().sample(count, size, rng)


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    lines = []
    for size, few, many in ((9, 100, 5000), (59, 10, 1000)):
        ratio = median_ratio(theirs(size, few), ours(size, many), rounds=5) * many / few
        lines.append({"what": f"mazes per second, {size}x{size}: times faster", "value": ratio, "target": TARGET})
        print(
            f"{lines[-1]['what']:<50} {ratio:8.1f}  >= {TARGET:.0f}  {'met' if ratio >= TARGET else 'NOT MET'}",
            flush=True,
        )
    write(options.json, lines=lines)


if __name__ == "__main__":
    main()
