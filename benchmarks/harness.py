"""Timing that survives a noisy machine: contestants take turns, and only ratios inside one run are reported."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Line:
    """One number that was measured."""

    what: str
    value: float
    unit: str = ""


def arguments(about: str | None) -> argparse.ArgumentParser:
    """What every benchmark understands."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write what was found as JSON")
    return parser


def report(lines: Iterable[Line], file: str | None) -> None:
    """Print lines as they are measured, and write them if there is a file for them."""
    found = []
    for line in lines:
        found.append(asdict(line))
        print(f"{line.what:<55} {line.value:9.4g} {line.unit}", flush=True)
    write(file, lines=found)


def write(file: str | None, **found: object) -> None:
    """As JSON, if there is a file for it."""
    if file:
        Path(file).write_text(json.dumps({"torch": torch.__version__, **found}, indent=1) + "\n")


def best_times(contestants: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 1) -> dict[str, float]:
    """Seconds of the fastest of `rounds` calls of each, called in turns so that all see the same noise."""
    for _ in range(warmup):
        for run in contestants.values():
            run()
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def median_ratio(numerator: Callable[[], object], denominator: Callable[[], object], *, rounds: int) -> float:
    """How many times longer the first takes: the median over rounds in which each runs once, in either order."""
    ratios = []
    for turn in range(rounds + 1):  # the first one warms up
        seconds = {}
        for run in (numerator, denominator) if turn % 2 else (denominator, numerator):
            begin = time.perf_counter()
            run()
            seconds[run] = time.perf_counter() - begin
        ratios.append(seconds[numerator] / seconds[denominator])
    return statistics.median(ratios[1:])
