"""Timing that survives a noisy machine: contestants take turns, and only ratios inside one run are reported."""

import statistics
import time
from collections.abc import Callable, Mapping


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
