"""Misuse raises, and the message names the remedy."""

import math

import pytest
import torch
from problems import column, flip

from equilibria import Budget, Picard, solve

PLAIN = Picard()


@pytest.mark.parametrize("steps", [0, -3, 2.5, True])
def test_steps(steps):
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        Budget(steps)


@pytest.mark.parametrize("tol", [-1e-3, math.nan, math.inf])
def test_tolerance(tol):
    with pytest.raises(ValueError, match="tol must be >= 0 and finite"):
        Budget(10, tol=tol)


def test_a_cell_that_changes_the_shape():
    with pytest.raises(ValueError, match=r"\(2, 1\) into \(2, 2\).*padding"):
        solve(lambda z: torch.cat((z, z), 1), column(0.0, 1.0), solver=PLAIN, budget=Budget(5))


def test_a_cell_that_changes_the_dtype():
    with pytest.raises(ValueError, match=r"float64 into torch.float32.*convert"):
        solve(lambda z: z.float(), column(0.0), solver=PLAIN, budget=Budget(5))


def test_a_cell_that_returns_something_else():
    with pytest.raises(TypeError, match="got tuple; return the next state"):
        solve(lambda z: (z, z), column(0.0), solver=PLAIN, budget=Budget(5))  # pyright: ignore[reportArgumentType]


def test_an_injection_of_another_batch_size():
    with pytest.raises(ValueError, match=r"\(3, 1\).*first dimension of every injected tensor must be the batch"):
        solve(lambda z, u: z, column(0.0), {"u": column(1, 2, 3)}, solver=PLAIN, budget=Budget(5))


def test_a_cell_that_closes_over_its_samples():
    """When all but one row have left, broadcasting would hide the mistake."""
    rate = column(0.1, 0.9)
    with pytest.raises(ValueError, match=r"\(1, 1\) into \(2, 1\).*as injection"):
        solve(lambda z: rate * z + 1, column(0.0, 0.0), solver=PLAIN, budget=Budget(400, 1e-9))


def test_a_cell_that_closes_over_many_rows():
    rate = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)[:, None]
    with pytest.raises(RuntimeError) as caught:
        solve(lambda z: rate * z + 1, torch.zeros_like(rate), solver=PLAIN, budget=Budget(400, 1e-9))
    assert "pass everything that differs between rows as injection" in caught.value.__notes__[0]


def test_a_cell_that_works_in_place():
    with pytest.raises(ValueError, match=r"f modified its state.*return a new tensor"):
        solve(lambda z: z.mul_(0.5).add_(1), column(0.0), solver=PLAIN, budget=Budget(9, 1e-6))


def test_a_cell_that_returns_the_same_buffer_again():
    buffer = column(0.0)
    with pytest.raises(ValueError, match="a tensor that it had returned"):
        solve(lambda z: torch.add(1, z, alpha=0.5, out=buffer), column(0.0), solver=PLAIN, budget=Budget(9, 1e-6))


@pytest.mark.parametrize("keep", [[1.5], ["3"], 7])
def test_steps_to_keep_that_are_no_numbers(keep):
    with pytest.raises(TypeError, match=r"integer|keep must list steps"):
        solve(flip, column(0.0), solver=PLAIN, budget=Budget(5), keep=keep)


def test_a_solver_by_name():
    with pytest.raises(TypeError, match=r"got 'andersen'; use one of Anderson\(\), Broyden\(\), Picard\(\)"):
        solve(flip, column(0.0), solver="andersen", budget=Budget(5))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("budget", [2.5, True, "long", (5, 1e-3)])
def test_a_budget_that_is_none(budget):
    with pytest.raises(TypeError, match=r"must be a Budget or a number of steps, got .*; for example Budget"):
        solve(flip, column(0.0), solver=PLAIN, budget=budget)


@pytest.mark.parametrize("option", ["halt_on_cycle", "per_leaf"])
def test_a_flag_that_is_no_bool(option):
    with pytest.raises(TypeError, match=f"{option} must be True or False, got 'no'"):
        Budget(10, **{option: "no"})  # pyright: ignore[reportArgumentType]


def test_two_relative_tolerances():
    with pytest.raises(ValueError, match=r"tol is short for rtol.*pass one of them"):
        Budget(10, tol=1e-3, rtol=1e-4)


def test_an_unknown_norm():
    with pytest.raises(ValueError, match="norm must be one of 'l2', 'rms', 'max' or a function, got 'L2'"):
        Budget(10, norm="L2")


@pytest.mark.parametrize(
    ("z0", "message"),
    [
        (torch.zeros(3, dtype=torch.long), "no floating-point tensor to iterate"),
        ((), "z0 must be a floating-point tensor"),
        (torch.tensor(1.0), "z0 must be a floating-point tensor"),
        (3.0, "z0 must be a floating-point tensor"),
        ((torch.zeros(3, 1), torch.zeros(2, 1)), "whose first dimension is the batch"),
        (torch.zeros(3, 1, dtype=torch.complex64), "view_as_real"),
    ],
)
def test_a_start_that_is_no_batch_of_states(z0, message):
    with pytest.raises(TypeError, match=message):
        solve(flip, z0, solver=PLAIN, budget=Budget(5))
