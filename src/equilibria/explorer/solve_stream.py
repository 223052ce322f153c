"""One solve as a stream of events: the answer after every step, while the solve runs."""

import math
import time
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from equilibria.core.loop import Stepwise
from equilibria.core.solution import Status
from equilibria.explorer.jobs import Event
from equilibria.explorer.problem import Problem
from equilibria.explorer.views import judge

COLUMNS = ("residual", "score", "share", "right")
PACKET_SECONDS = 1 / 30  # between two packets
PACKET_BYTES = 2**18  # a packet of this size is sent at once
SETTLED = 1e-4  # a relative residual that counts as settled

Frame = tuple[Tensor, Tensor | None]  # of one step: numbers (width,), and an answer (places,) uint8


def solve_events(problem: Problem) -> Iterator[Event]:
    """Events: input, preparing (if the start takes long), opened, frames ..., done."""
    yield input_event(problem)
    start = yield from problem.start()
    yield {
        "event": "opened",
        "columns": COLUMNS,
        "places": problem.view.places(problem.instance),
        "steps": problem.request.steps,
        "solver": str(problem.solver),
        "state": list(start.shape[1:]),
    }
    began = time.monotonic()
    with torch.no_grad():
        stepwise = problem.stepwise(start)
        yield from packets(_frame(problem, z, residual) for z, residual in trajectory(stepwise))
        solution = stepwise.result()
    yield {
        "event": "done",
        "status": status_name(int(solution.status[0]), solution.residual[0].item()),
        "period": int(solution.period[0]),
        "residual": finite_or_none(solution.residual[0].item()),
        "steps": int(solution.steps[0]),
        "seconds": time.monotonic() - began,
    }


def input_event(problem: Problem) -> Event:
    """The first event: the input as the page draws it."""
    instance = problem.instance
    return {"event": "input", "drawing": instance.drawing, "note": instance.note, "judged": instance.judged}


def trajectory(stepwise: Stepwise) -> Iterator[tuple[Tensor, Tensor]]:
    """The states (rows, *state) and residuals (rows,) of every step, and of the start; NaN for finished rows."""
    yield stepwise.z, torch.full_like(stepwise.residual, math.nan)
    for _ in stepwise.run():
        yield stepwise.z, stepwise.residual.where(stepwise.active, math.nan)


def packets(frames: Iterable[Frame]) -> Iterator[Event]:
    """Gather frames into events: the first at once, the others up to 30 times a second.

    Their data are all numbers as float32, (count, width), and then all answers, (count, places).
    """
    numbers: list[bytes] = []
    answers: list[bytes] = []
    first, sent = 0, -math.inf

    def packet() -> Event:
        data = b"".join((*numbers, *answers))
        return {"event": "frames", "first": first, "count": len(numbers), "data": data}

    for values, answer in frames:
        numbers.append(values.float().numpy().tobytes())
        if answer is not None:
            answers.append(answer.numpy().tobytes())
        size = len(numbers) * len(numbers[0]) + len(answers) * (len(answers[0]) if answers else 0)
        if time.monotonic() - sent > PACKET_SECONDS or size > PACKET_BYTES:
            yield packet()
            first, sent = first + len(numbers), time.monotonic()
            numbers.clear()
            answers.clear()
    if numbers:
        yield packet()


def status_name(status: int, residual: float) -> str:
    """What a solve did, for people: a small residual counts as settled, whatever the tolerance was."""
    return "settled" if status == Status.EXHAUSTED and residual <= SETTLED else Status(status).name.lower()


def finite_or_none(value: float) -> float | None:
    """A number as JSON can hold it."""
    return value if math.isfinite(value) else None


def _frame(problem: Problem, z: Tensor, residual: Tensor) -> Frame:
    prediction = problem.model.readout(z)
    score, right = judge(problem.task, prediction, problem.instance)
    share = problem.view.share(prediction, problem.instance)
    numbers = torch.stack([part[0].float() for part in (residual, score, share, right)])
    return numbers, problem.view.paint(prediction, problem.instance)[0]
