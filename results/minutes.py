"""How long recipes take: from the summaries of the shipped nets, and from timings.json for what they do not record.

`python results/minutes.py NAME ...` measures the first shipped net of each recipe again, in full and on one thread, and
stores the CPU time in timings.json. It trains a net where none is shipped.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from equilibria.training import RECIPES, Run, train
from equilibria.training.measurement import measure_final

HERE = Path(__file__).parent
TIMINGS = HERE / "timings.json"
Minutes = dict[str, dict[str, float | None]]


def recipe_minutes(shipped: Mapping[str, Sequence[Run]]) -> Minutes:
    """Minutes of training (the median of the shipped seeds) and of the full measurement, by recipe; None if unknown."""
    timings = json.loads(TIMINGS.read_text())
    found: Minutes = {}
    for name in RECIPES:
        seconds = dict.fromkeys(("training", "measuring")) | timings.get(name, {})
        if runs := shipped.get(name):
            seconds["training"] = statistics.median(run.summary["training_seconds"] for run in runs)
        found[name] = {f"{what}_minutes": None if one is None else _rounded(one / 60) for what, one in seconds.items()}
    return found


def timed(name: str) -> dict[str, float]:
    """CPU seconds of the full measurement of a net of this recipe, and of its training if no net is shipped."""
    recipe, seconds = RECIPES[name], {}
    folder = HERE / name / f"seed-{recipe.seed}"
    with tempfile.TemporaryDirectory() as scratch:
        if not folder.is_dir():
            folder, begin = Path(scratch) / "run", time.process_time()
            train(recipe, folder, final="none")
            seconds["training"] = round(time.process_time() - begin, 1)
        model = Run(folder).model()
    begin = time.process_time()
    measure_final(model, recipe)
    return seconds | {"measuring": round(time.process_time() - begin, 1)}


def _rounded(minutes: float) -> float:
    """Two digits below one minute, and tenths above."""
    return round(minutes, 1) if minutes >= 1 else float(f"{minutes:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=list(RECIPES), metavar="NAME")
    torch.set_num_threads(1)
    for name in parser.parse_args().names:
        found = timed(name)  # minutes, in which another process may have written the file
        timings = json.loads(TIMINGS.read_text()) | {name: found}
        TIMINGS.write_text(json.dumps(dict(sorted(timings.items())), indent=1) + "\n")
        print(name, found, flush=True)


if __name__ == "__main__":
    main()
