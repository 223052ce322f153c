"""L-BFGS for a batch of small problems: every row has its own history, line search and stopping rule."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

ENOUGH_DESCENT, ENOUGH_SLOPE = 1e-4, 0.9  # the constants of the strong Wolfe conditions (Nocedal & Wright)
MEMORY, TRIALS = 10, 25  # pairs that are remembered, and evaluations of one line search
TOLERANCE_GRAD, TOLERANCE_CHANGE = 1e-7, 1e-9  # the defaults of PyTorch

# function(x, rows) -> values (k,) and gradients (k, n) of the rows `rows`, (k,), at x, (k, n)
Function = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Minimum(NamedTuple):
    """The lowest points found."""

    x: Tensor  # (batch, n)
    value: Tensor  # (batch,) never above that of the start
    updates: Tensor  # (batch,) how many were taken


class _Pairs(NamedTuple):
    """The latest moves and the changes of the gradient along them, newest first."""

    moves: Tensor  # (memory, batch, n)
    bends: Tensor  # (memory, batch, n)
    weights: Tensor  # (memory, batch) 1 / (move . bend), 0 where there is no pair


def minimise(function: Function, x: Tensor, *, updates: int) -> Minimum:
    """Minimise `function` from `x`, (batch, n), row by row.

    The rules are those of `torch.optim.LBFGS(lr=1, line_search_fn="strong_wolfe")` for each row alone. A row stops when
    its largest partial derivative, its largest move or its gain is within the tolerance, or when the gain is within
    rounding. Finished rows are not evaluated again. PyTorch also limits the evaluations to 5/4 of the updates; here
    each line search may take up to `TRIALS`.
    """
    x, rows = x.clone(), torch.arange(len(x), device=x.device)
    value, grad = function(x, rows)
    pairs = _Pairs(x.new_zeros(MEMORY, *x.shape), x.new_zeros(MEMORY, *x.shape), x.new_zeros(MEMORY, len(x)))
    taken = torch.zeros_like(rows)
    live = value.isfinite() & (grad.abs().amax(1) > TOLERANCE_GRAD)  # (batch,)
    for update in range(updates):
        at = live.nonzero()[:, 0]
        if not len(at):
            break
        direction = -_newton(grad[at], _Pairs(*(part[:, at] for part in pairs)))
        step = torch.ones_like(value[at])
        if update == 0:
            step = (1 / grad[at].abs().sum(1)).clamp(max=1)  # no curvature is known yet
        least = (torch.finfo(x.dtype).eps * value[at].abs()).clamp(min=TOLERANCE_CHANGE)  # least gain
        length, new_value, new_grad = _search(function, x[at], value[at], grad[at], direction, step, least, at)
        move = length[:, None] * direction
        _remember(pairs, at, move, new_grad - grad[at])
        gain = value[at] - new_value
        x[at], value[at], grad[at] = x[at] + move, new_value, new_grad
        taken[at] += length > 0
        live[at] = (new_grad.abs().amax(1) > TOLERANCE_GRAD) & (move.abs().amax(1) > TOLERANCE_CHANGE) & (gain >= least)
    return Minimum(x, value, taken)


def _newton(grad: Tensor, pairs: _Pairs) -> Tensor:
    """The gradient times the approximate inverse Hessian, (batch, n), by the two-loop recursion."""
    q, alphas = grad, []
    for move, bend, weight in zip(*pairs, strict=True):
        alpha = weight * (move * q).sum(1)  # (batch,)
        q = q - alpha[:, None] * bend
        alphas.append(alpha)
    newest = pairs.bends[0]
    curvature = pairs.weights[0] * (newest * newest).sum(1)  # (batch,)
    q = q / torch.where(curvature > 0, curvature, 1)[:, None]
    for move, bend, weight, alpha in reversed([*zip(*pairs, alphas, strict=True)]):
        beta = weight * (bend * q).sum(1)
        q = q + (alpha - beta)[:, None] * move
    return q


def _remember(pairs: _Pairs, at: Tensor, move: Tensor, bend: Tensor) -> None:
    """Prepend a pair for the rows `at`. A pair with negative curvature gets weight 0."""
    product = (move * bend).sum(1)
    weight = torch.where(product > 0, 1 / product, 0).nan_to_num(posinf=0)
    for old, new in zip(pairs, (move, bend, weight), strict=True):
        old[:, at] = torch.cat((new[None], old[:-1, at]))


def _search(
    function: Function,
    x: Tensor,
    value: Tensor,
    grad: Tensor,
    direction: Tensor,
    step: Tensor,
    least: Tensor,
    at: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find step lengths, values and gradients that meet the strong Wolfe conditions, or the best ones tried.

    A step is too long if it descends too little or ends on a steep ascent, and too short if it ends on a steep descent.
    Double it until it is too long, then bisect, as long as the slope promises a gain of at least `least`.
    """
    slope = (grad * direction).sum(1)  # (batch,)
    short, long = torch.zeros_like(step), torch.full_like(step, torch.inf)
    best, value_there, grad_there = torch.zeros_like(step), value.clone(), grad.clone()
    searching = (slope < 0).nonzero()[:, 0]
    for _ in range(TRIALS):
        if not len(searching):
            break
        s = searching
        new_value, new_grad = function(x[s] + step[s, None] * direction[s], at[s])
        new_slope = (new_grad * direction[s]).sum(1)
        descends = new_value <= value[s] + ENOUGH_DESCENT * step[s] * slope[s]  # false for NaN
        too_long = ~(descends & (new_slope <= -ENOUGH_SLOPE * slope[s]))
        too_short = ~too_long & (new_slope < ENOUGH_SLOPE * slope[s])
        better = descends & new_slope.isfinite() & (new_value < value_there[s])
        b = s[better]
        best[b], value_there[b], grad_there[b] = step[b], new_value[better], new_grad[better]
        short[s] = torch.where(too_short, step[s], short[s])
        long[s] = torch.where(too_long, step[s], long[s])
        step[s] = torch.where(long[s].isfinite(), (short[s] + long[s]) / 2, 2 * step[s])
        searching = s[(too_long | too_short) & (-slope[s] * step[s] >= least[s])]
    return best, value_there, grad_there
