"""Diagnose one input: solve it from several starts at once, and compare the limits."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core.similarity import References
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics import Plane, random_plane
from equilibria.explorer.jobs import Event
from equilibria.explorer.solve_stream import (
    Frame,
    OtherLimits,
    Preparing,
    Problem,
    input_event,
    opened_event,
    packets,
    status_names,
    trajectory,
)
from equilibria.explorer.views import judge
from equilibria.explorer.views.view import checked_share
from equilibria.io.files import jsonable

COLUMNS = ("x", "y", "residual", "share", "right", "cosine")  # of each start
PLANE_STEPS = (0, 1, 2, 4, 8, 16)  # whose states determine the principal plane
NOISE_SEED = 100
CHUNK_COLUMNS = 2**14


class Starts(NamedTuple):
    """The initial states of a diagnosis."""

    states: Tensor  # (rows, *state), the usual start first
    kinds: list[str]  # usual, this, noise, swapped
    others: OtherLimits | None  # the limits that the swapped starts were taken from


def diagnosis_events(problem: Problem) -> Iterator[Event]:
    """Events: input, preparing ..., opened, frames ..., done. The AA score (paper, Algorithm 1) is of this input."""
    yield input_event(problem)
    yield {"event": "preparing", "start": "several", "share": 0}
    starts = yield from _starts(problem)
    with torch.no_grad():
        plane = _plane(problem, starts.states)
        yield opened_event(problem, COLUMNS, places=0) | {"starts": starts.kinds}
        stepwise = problem.stepwise(starts.states)
        yield from packets(_frame(problem, z, residual, plane) for z, residual in trajectory(stepwise))
        yield _done_event(stepwise.result(), starts)


def _starts(problem: Problem) -> Preparing[Starts]:
    request, usual = problem.request, problem.usual_start
    states, kinds, others = [usual], ["usual"], None
    if request.start.kind not in ("usual", "zeros") or (request.start.kind == "zeros" and bool(usual.any())):
        states.append((yield from problem.start()))
        kinds.append("this")
    states += [problem.noise(1.0, NOISE_SEED + number) for number in range(request.noises)]
    kinds += ["noise"] * request.noises
    if request.restarts:
        others = yield from problem.other_limits(request.restarts)
        states.append(others.z.nan_to_num(0, 0, 0))  # those of diverged solves are ignored below
        kinds += ["swapped"] * request.restarts
    return Starts(torch.cat(states), kinds, others)


def _plane(problem: Problem, starts: Tensor) -> Plane:
    """The plane on which trajectories are drawn, chosen before the first of them is drawn."""
    if problem.request.plane == "random" or starts[0].numel() < 3:
        return random_plane(starts[:1], rng=torch.Generator().manual_seed(0))
    stepwise, states = problem.stepwise(starts), []
    for step in [step for step in PLANE_STEPS if step <= problem.request.steps]:
        stepwise.step(step - stepwise.taken)
        states.append(stepwise.z.flatten(1).clone())
    return _principal_plane(torch.cat(states))


def _principal_plane(states: Tensor) -> Plane:
    """The plane of the two principal directions of states (count, n). The rows of `states` are overwritten.

    `equilibria.diagnostics.principal_plane` computes a singular value decomposition in double precision. For a large
    maze that takes ten times the memory of the states; this takes a tenth of it.
    """
    finite = states.norm(dim=1, keepdim=True).isfinite()  # (count, 1)
    states.masked_fill_(~finite, 0)
    mean = states.sum(0, keepdim=True) / finite.sum().clamp(min=1)  # (1, n)
    states.sub_(mean).masked_fill_(~finite, 0)
    gram = sum((part.double() @ part.double().mT for part in states.split(CHUNK_COLUMNS, 1)), torch.zeros(()))
    weights = torch.linalg.eigh(gram).eigenvectors[:, -2:].flip(1).to(states)  # (count, 2), the largest first
    directions = torch.linalg.qr((weights.mT @ states).mT).Q.mT  # (2, n); orthonormal even if the states are equal
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return Plane(mean, (directions * largest.sign())[None])


def _frame(problem: Problem, z: Tensor, residual: Tensor, plane: Plane) -> Frame:
    """The columns of all starts, one start after the other: (rows * columns,)."""
    flat = z.flatten(1)
    x, y = ((flat - plane.origin) @ plane.directions[0].mT).T
    prediction = problem.model.readout(z)
    _, right = judge(problem.task, prediction, problem.instance)
    share = checked_share(problem.view, prediction, problem.instance)
    cosine = torch.cosine_similarity(flat[:1], flat)
    return torch.stack([part.float() for part in (x, y, residual, share, right, cosine)], 1).flatten(), None


def _done_event(solution: Solution, starts: Starts) -> Event:
    diverged = solution.status == Status.DIVERGED
    swapped = torch.tensor([kind == "swapped" for kind in starts.kinds])
    event: Event = {
        "event": "done",
        "status": status_names(solution),
        "period": solution.period,
        "residual": solution.residual,
        "diverged": diverged[swapped].sum(),
        "alignment": None,
        "centred": None,
    }
    if starts.others is None:
        return jsonable(event)
    # Centring subtracts the mean limit of this input and of the other inputs.
    others_diverged = starts.others.status == Status.DIVERGED
    references = References(torch.cat((solution.z[:1], starts.others.z)), torch.cat((diverged[:1], others_diverged)))
    good = ~diverged[swapped] & ~others_diverged
    if not bool(diverged[0]) and bool(good.any()):
        limits = solution.z[swapped][good]
        agreement = references.agreement(torch.zeros(len(limits), dtype=torch.long), limits)
        named = {"alignment": agreement.cosine, "centred": agreement.centred, "distance": agreement.distance}
        event |= {name: values.mean() for name, values in named.items()}
    return jsonable(event)
