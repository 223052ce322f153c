"""Watch a net think: the answer at every step, while it is being found."""

import time
from collections.abc import Generator, Iterator
from typing import Any

import torch
from torch import Tensor

from equilibria.core.solution import Status
from equilibria.explorer.frames import Packer, plain
from equilibria.explorer.problem import Preparing, Problem, T
from equilibria.explorer.views import judged

COLUMNS = ("residual", "score", "share", "right")
SELDOM = 0.25  # seconds between two reports of a preparation
REST = 1e-4  # a relative residual that counts as being at rest


def described(problem: Problem) -> dict[str, Any]:
    """The event that comes first: the input, as the page draws it."""
    instance = problem.instance
    return {
        "event": "input",
        "drawing": instance.drawing,
        "note": instance.note,
        "judged": instance.judged,
    }


def thinking(problem: Problem) -> Iterator[dict[str, Any]]:
    """Events: input, preparing (where the start takes work), opened, frames ..., done."""
    yield described(problem)
    if problem.asked.start.kind in ("other", "attack"):
        yield {"event": "preparing", "start": problem.asked.start.kind, "share": 0}
    start = yield from reported(problem.start(), problem.asked.start.kind)
    yield {
        "event": "opened",
        "columns": COLUMNS,
        "places": problem.view.places(problem.instance),
        "steps": problem.asked.budget.steps,
        "solver": str(problem.solver),
        "state": list(start.shape[1:]),
        "prepared": problem.evaluations,
    }
    packer, began = Packer(), time.monotonic()
    with torch.no_grad():
        solving = problem.solving(start)
        packer.add(*_seen(problem, start, torch.tensor([torch.nan])))
        yield packer.packet()
        for _ in solving.run():
            packer.add(*_seen(problem, solving.z, torch.where(solving.active, solving.residual, torch.nan)))
            if packer.due():
                yield packer.packet()
        yield from packer.rest()
        solution = solving.result()
    yield {
        "event": "done",
        "status": status_name(int(solution.status[0]), solution.residual[0].item()),
        "period": int(solution.period[0]),
        "residual": plain(solution.residual[0].item()),
        "steps": int(solution.steps[0]),
        "seconds": time.monotonic() - began,
    }


def reported(work: Preparing[T], start: str) -> Generator[dict[str, Any], None, T]:
    """What the work makes; how far it is becomes an event a few times a second."""
    told = time.monotonic()
    while True:
        try:
            share = next(work)
        except StopIteration as over:
            return over.value
        if time.monotonic() - told > SELDOM:
            told = time.monotonic()
            yield {"event": "preparing", "start": start, "share": share}


def _seen(problem: Problem, state: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    prediction = problem.readout(state)
    score, right = judged(problem.task, prediction, problem.instance)
    share = problem.view.share(prediction, problem.instance)
    numbers = torch.stack([part[0].float() for part in (residual, score, share, right)])
    return numbers, problem.view.painted(prediction, problem.instance)[0]


def status_name(status: int, residual: float) -> str:
    """For people: what a solve did. One that has come to rest has settled, whatever its tolerance."""
    if status == Status.EXHAUSTED and residual <= REST:
        return "settled"
    return Status(status).name.lower()
