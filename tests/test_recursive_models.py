"""TRM, HRM and EqR: adapted step by step, with whole gradients, their q head, and their labels."""

import copy

import pytest
import torch
from foreign_recursive import IGNORED, LossHead, made, puzzles
from problems import rng
from torch import nn

from equilibria import Budget, Status, diagnose
from equilibria.core._random import drawing_from
from equilibria.diagnostics import (
    alignment_score,
    check_model,
    contraction,
    from_eqr,
    from_function,
    from_hrm,
    from_trm,
)

ADAPT = {"trm": from_trm, "hrm": from_hrm, "eqr": from_eqr}
KINDS = pytest.mark.parametrize("kind", ADAPT)


def steps_of(model, batch, count):
    """The logits and q values that a model gives at each step of its own evaluation."""
    carry, outputs = model.initial_carry(batch), []
    with torch.no_grad():
        for _ in range(count):
            carry, out = model(carry, batch)
            outputs.append(out)
    return outputs


CYCLES = pytest.mark.parametrize(("high", "low"), [(1, 1), (2, 1), (3, 2)])


@KINDS
@CYCLES
def test_every_step_is_theirs(kind, high, low):
    model, batch = made(kind, H_cycles=high, L_cycles=low), puzzles()
    adapted = ADAPT[kind](model)
    with drawing_from(rng(4)):
        theirs = steps_of(model, batch, 4)
    for count in range(1, 5):
        found = adapted.equilibrium(batch, budget=Budget(count), rng=rng(4))
        assert torch.equal(adapted.readout(found.z), theirs[count - 1]["logits"])
        q = q_values(adapted, found.z)
        expected = theirs[count - 1]["q_halt_logits"]
        assert torch.equal(q, expected - theirs[count - 1]["q_continue_logits"] if kind == "hrm" else expected)
    assert adapted.budget.steps == 4


def q_values(adapted, z):
    assert adapted.halting is not None
    return adapted.halting.head(z)


def unrolled(model, batch, count):
    """The same recursion without any truncation of its gradient."""
    inner, config = model.inner, model.config
    carry = inner.reset_carry(torch.ones(len(batch["inputs"])).bool(), inner.empty_carry(len(batch["inputs"])))
    z_H, z_L = carry.z_H, carry.z_L
    u = inner._input_embeddings(batch["inputs"], batch["puzzle_identifiers"])
    for _ in range(count * config.H_cycles):
        for _ in range(config.L_cycles):
            z_L = inner.L_level(z_L, z_H + u)
        z_H = getattr(inner, "H_level", inner.L_level)(z_H, z_L)
    return inner.heads(z_H)[0]


@KINDS
@CYCLES
def test_gradients_reach_everything(kind, high, low):
    model, batch = made(kind, H_cycles=high, L_cycles=low), puzzles()
    weights = [*model.inner.L_level.parameters(), model.inner.embed_tokens.weight]
    prediction, _ = ADAPT[kind](model)(batch, budget=Budget(3), rng=rng(4))
    with drawing_from(rng(4)):
        expected = unrolled(model, batch, 3)
    torch.testing.assert_close(prediction, expected, rtol=0, atol=0)
    found = torch.autograd.grad(prediction.square().sum(), weights)
    torch.testing.assert_close(found, torch.autograd.grad(expected.square().sum(), weights))


@KINDS
def test_one_line(kind):
    batch = puzzles(24)
    report = diagnose(ADAPT[kind](made(kind)), batch, batch["labels"], budget=12, restarts=1, attacks=False)
    right = steps_of(made(kind), batch, 12)[-1]["logits"].argmax(-1) == batch["labels"]
    if kind != "eqr":
        expected = (right | (batch["labels"] == IGNORED)).all(1).double().mean().item()
        assert report.score == pytest.approx(expected)
    assert report.contraction is not None
    assert any("random" in note for note in report.notes) == (kind == "eqr")


def test_the_q_head_stops_rows():
    """Rows stop at the first step at which their own q head is positive."""
    model, batch = made("trm", halt_max_steps=12), puzzles(24)
    adapted = from_trm(model)
    with torch.no_grad():
        model.inner.q_head.bias -= q_values(adapted, adapted.equilibrium(batch, budget=3).z).median()
    found = adapted.equilibrium(batch, budget=Budget(12), until=adapted.halting, every=1)
    values = torch.stack([out["q_halt_logits"] for out in steps_of(model, batch, 12)])  # (steps, rows)
    first = torch.where((values > 0).any(0), (values > 0).int().argmax(0) + 1, 12)
    assert torch.equal(found.steps, first)
    assert len(set(first.tolist())) > 2
    assert (found.status[first < 12] == Status.STOPPED).all()


def test_a_trm_with_two_q_values():
    model, batch = made("trm", no_ACT_continue=False), puzzles()
    (out,) = steps_of(model, batch, 1)
    adapted = from_trm(model)
    q = q_values(adapted, adapted.equilibrium(batch, budget=1).z)
    assert torch.equal(q, out["q_halt_logits"] - out["q_continue_logits"])


def test_wrapped_models_and_tokens_alone():
    model, batch = made("trm"), puzzles(labels=False)
    batch["puzzle_identifiers"].zero_()
    expected = from_trm(model).equilibrium(batch, budget=2).z.z_H
    for wrapped in (LossHead(model), nn.DataParallel(LossHead(model)), torch.compile(LossHead(model), backend="eager")):
        adapted = from_trm(wrapped)  # pyright: ignore[reportArgumentType]
        assert torch.equal(adapted.equilibrium(batch["inputs"], budget=2).z.z_H, expected)


def test_rows_leave_the_batch_with_their_puzzle():
    batch = puzzles(24)
    adapted = from_trm(made("trm"))
    together = adapted.equilibrium(batch, budget=Budget(200, tol=1e-5))
    assert len(set(together.steps.tolist())) > 2
    for i in (0, 13):
        alone = adapted.equilibrium(
            {name: value[i : i + 1] for name, value in batch.items()}, budget=Budget(200, tol=1e-5)
        )
        assert alone.steps == together.steps[i]
        torch.testing.assert_close(alone.z.z_H, together.z.z_H[i : i + 1], rtol=0, atol=1e-4)


def test_training_mode_is_named():
    """In training mode, a puzzle embedding works only for whole batches."""
    batch = puzzles()
    adapted = from_trm(made("trm").train())
    with pytest.raises(TypeError, match=r"fails for fewer rows than 6 in training mode; call \.eval\(\)"):
        check_model(adapted, batch)
    with pytest.raises(RuntimeError) as error:  # once a row has left
        adapted.equilibrium(batch, until=lambda view: view.rows < view.step, every=1)
    assert "In training mode, puzzle embeddings accept only whole batches; call .eval()." in error.value.__notes__
    report = diagnose(adapted, batch, batch["labels"], budget=8, restarts=1, attacks=False)
    assert report.score is not None
    assert adapted.training


def test_a_random_start_is_seeded():
    batch = puzzles()
    adapted = from_eqr(made("eqr"))
    one, again, other = (adapted.equilibrium(batch, budget=6, rng=rng(seed)).z.z_H for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    scores = [alignment_score(adapted, batch, restarts=2, budget=6, random=True, rng=rng()).score for _ in range(2)]
    assert torch.equal(*scores)


def test_an_eqr_net_without_its_noise():
    """It is a TRM with damping: the noise of both is 0."""
    model, batch = made("eqr", noise_scale=0.3), puzzles()
    quiet = copy.deepcopy(model)
    quiet.inner.L_level.noise_scale = 0.0
    with drawing_from(rng(4)):
        expected = steps_of(quiet, batch, 3)[-1]["logits"]
    adapted = from_eqr(model, noise=False)
    assert torch.equal(adapted.readout(adapted.equilibrium(batch, budget=3, rng=rng(4)).z), expected)
    assert model.inner.L_level.noise_scale == 0.3


def test_the_contraction_rate_of_a_trm():
    """The spectral radius of one step, from the Jacobian of the whole recursion."""
    model, batch = made("trm", gain=0.1), puzzles(2)
    adapted = from_trm(model)
    limits = adapted.equilibrium(batch, budget=Budget(300))
    found = contraction(adapted, batch, limits, rng=rng())
    first = {name: value[:1] for name, value in batch.items()}
    z_H, z_L = limits.z.z_H[:1].double(), limits.z.z_L[:1].double()
    exact = copy.deepcopy(model).double()
    u = exact.inner._input_embeddings(first["inputs"], first["puzzle_identifiers"]).detach()

    def step(flat):
        high, low = flat.view(2, 1, *z_H.shape[1:])
        for _ in range(model.config.H_cycles):
            high, low = exact.inner.cycle(high, low, u)
        return torch.stack((high, low)).flatten()

    jacobian = torch.autograd.functional.jacobian(step, torch.stack((z_H, z_L)).flatten())
    radius = torch.linalg.eigvals(jacobian).abs().max().item()
    assert found.radius[0].item() == pytest.approx(radius, rel=0.05)


@pytest.mark.parametrize("adapt", ADAPT.values())
def test_what_is_no_recursive_model(adapt):
    with pytest.raises(TypeError, match=r"a Linear is not a .* no module `inner`; use from_function"):
        adapt(nn.Linear(2, 2))
    model = made("trm")
    del model.inner.q_head
    with pytest.raises(TypeError, match="its inner network has no q_head"):
        adapt(model)
    with pytest.raises(TypeError, match="a dict with 'inputs'"):
        adapt(made("trm")).equilibrium({"tokens": torch.zeros(2, 5)})


def test_a_model_on_another_device():
    batch = puzzles()
    with pytest.raises(ValueError, match=r"model is on meta and its inputs are on cpu; move one.*inputs\.to\('meta'\)"):
        diagnose(from_trm(made("trm").to("meta")), batch, batch["labels"])
    weight = nn.Linear(3, 3, device="meta")
    with pytest.raises(ValueError, match="model is on meta and its inputs are on cpu"):
        diagnose(
            from_function(lambda z, x: weight(z) + x, init=torch.zeros_like, readout=lambda z: z), torch.ones(4, 3)
        )
