"""Diagnose one input: solve it from several starts at once, and see whether they meet."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core.similarity import Usual
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics import Plane, principal_plane, random_plane
from equilibria.explorer.frames import Packer, plain
from equilibria.explorer.problem import Limits, Preparing, Problem
from equilibria.explorer.solve_stream import described, reported, status_name
from equilibria.explorer.views import judged

COLUMNS = ("x", "y", "residual", "share", "right", "cosine")  # of each start
AHEAD = (0, 1, 2, 4, 8, 16)  # steps whose states decide on the principal plane, before anything is drawn
NOISE_SEED = 100


class Starts(NamedTuple):
    """Where the solves begin: rows of states, and what they are."""

    states: Tensor  # (rows, *state) the first is the usual start
    kinds: list[str]  # usual, this, noise, swapped
    lenders: Limits | None  # of the swapped ones: the solves of the other inputs


def diagnosing(problem: Problem) -> Iterator[dict[str, Any]]:
    """Events: input, opened, frames ..., done. The AA score (paper, Algorithm 1) is that of this one input."""
    yield described(problem)
    yield {"event": "preparing", "start": "several", "share": 0}
    starts = yield from reported(_starts(problem), "several")
    plane = _plane(problem, starts.states)
    rows = len(starts.kinds)
    yield {
        "event": "opened",
        "columns": COLUMNS,
        "starts": starts.kinds,
        "places": 0,
        "steps": problem.asked.budget.steps,
        "solver": str(problem.solver),
    }
    packer = Packer()
    with torch.no_grad():
        solving = problem.solving(starts.states)
        packer.add(_seen(problem, starts.states, torch.full((rows,), torch.nan), plane))
        for _ in solving.run():
            packer.add(_seen(problem, solving.z, torch.where(solving.active, solving.residual, torch.nan), plane))
            if packer.due():
                yield packer.packet()
        yield from packer.rest()
        yield _found(solving.result(), starts)


def _starts(problem: Problem) -> Preparing[Starts]:
    states, kinds, lenders = [problem.usual_start], ["usual"], None
    kind = problem.asked.start.kind
    if kind not in ("usual", "zeros") or (kind == "zeros" and bool(problem.usual_start.any())):
        states.append((yield from problem.start()))
        kinds.append("this")
    for number in range(problem.asked.noises):
        states.append(problem.noise(1.0, NOISE_SEED + number))
        kinds.append("noise")
    if problem.asked.others:
        lenders = yield from problem.limits_of_others(problem.asked.others, 0)
        states.append(lenders.z.nan_to_num(0, 0, 0))  # one that diverged lends nothing, and is not counted below
        kinds += ["swapped"] * problem.asked.others
    return Starts(torch.cat(states), kinds, lenders)


def _plane(problem: Problem, starts: Tensor) -> Plane:
    """Fixed before anything is drawn, so that trajectories can be drawn as they happen."""
    if problem.asked.plane == "random" or starts[0].numel() < 3:
        return random_plane(starts[:1], rng=torch.Generator().manual_seed(0))
    with torch.no_grad():
        solving, seen = problem.solving(starts), []
        for step in AHEAD:
            if step <= problem.asked.budget.steps:
                solving.step(step - solving.taken)
                seen.append(solving.z.flatten(1).clone())
    plane = principal_plane(torch.cat(seen)[None])
    return Plane(plane.origin.to(starts.dtype), plane.directions.to(starts.dtype))


def _seen(problem: Problem, states: Tensor, residual: Tensor, plane: Plane) -> Tensor:
    """The numbers of all starts after a step, one start after the other: (rows * columns,)."""
    flat = states.flatten(1)
    x, y = ((flat - plane.origin) @ plane.directions[0].mT).T
    prediction = problem.readout(states)
    _, right = judged(problem.task, prediction, problem.instance)
    share = problem.view.share(prediction, problem.instance)
    cosine = torch.cosine_similarity(flat[:1], flat)
    return torch.stack([part.float() for part in (x, y, residual, share, right, cosine)], 1).flatten()


def _found(solution: Solution, starts: Starts) -> dict[str, Any]:
    lost = solution.status == Status.DIVERGED
    swapped = torch.tensor([kind == "swapped" for kind in starts.kinds])
    found: dict[str, Any] = {
        "event": "done",
        "status": [status_name(int(s), r.item()) for s, r in zip(solution.status, solution.residual, strict=True)],
        "period": solution.period.tolist(),
        "residual": plain(solution.residual),
        "diverged": int(lost[swapped].sum()),
        "alignment": None,
        "centred": None,
    }
    if starts.lenders is None:
        return found
    # The mean that centring takes off is that of this input and of those that lent their states.
    usual = Usual(torch.cat((solution.z[:1], starts.lenders.z)), torch.cat((lost[:1], _lost(starts.lenders))))
    good = ~lost[swapped] & ~_lost(starts.lenders)
    if not bool(lost[0]) and bool(good.any()):
        ends = solution.z[swapped][good]
        agreement = usual.agreement(torch.zeros(len(ends), dtype=torch.long), ends)
        found |= {name: plain(getattr(agreement, field).mean().item()) for name, field in _NAMES.items()}
    return found


_NAMES = {"alignment": "cosine", "centred": "centred", "distance": "distance"}


def _lost(ended: Solution | Limits) -> Tensor:
    return ended.status == Status.DIVERGED
