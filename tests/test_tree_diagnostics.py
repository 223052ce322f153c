"""Every measurement of a model whose state is a tree is that of the same model with its parts joined."""

import pytest
import torch
from problems import rng
from test_trees import KINDS, joined, split, start
from torch import Tensor, nn

from equilibria import Anderson, Budget, EquilibriumModel, Picard, Unchanged, load, save
from equilibria.diagnostics import (
    Disagreement,
    Misalignment,
    Noise,
    Swapped,
    ZeroState,
    alignment_score,
    attack,
    basin_map,
    contraction,
    convergence,
    diagnose,
    from_function,
    limit_distance,
    sensitivity,
    start_influence,
    trajectories,
)

N, STEPS = 16, Budget(60)


def weights(gain: float) -> Tensor:
    W = torch.randn(N, N, generator=rng(), dtype=torch.float64)
    return gain * W / torch.linalg.matrix_norm(W, 2)


def cell(gain: float = 0.9):
    W = weights(gain)
    return lambda z, x: torch.tanh(z @ W.T + x)


def pair(kind: str, gain: float = 0.9) -> tuple[EquilibriumModel, EquilibriumModel]:
    """The model on joined states, and on trees."""
    f = cell(gain)
    one = from_function(f, init=torch.zeros_like, readout=lambda z: z)
    other = from_function(
        split(kind, f), init=lambda x: start(kind, torch.zeros_like(x)), readout=lambda z: joined(kind, z)
    )
    return one, other


def inputs(batch: int = 6) -> Tensor:
    return 0.3 * torch.randn(batch, N, generator=rng(1), dtype=torch.float64)


MEASURES = {
    "alignment": lambda model, x: alignment_score(model, x, restarts=2, budget=STEPS, start=Swapped()).score,
    "alignment from zeros": lambda model, x: alignment_score(model, x, budget=STEPS, start=ZeroState()).state.distance,
    "contraction": lambda model, x: torch.stack(contraction(model, x, budget=STEPS)),
    "convergence": lambda model, x: convergence(model, x, budget=STEPS).regime,
    "limit distance": lambda model, x: limit_distance(model, x, solvers=(Picard(), Anderson()), budget=STEPS).relative,
    "start influence": lambda model, x: start_influence(model, x, budget=Budget(3), probes=200),
    "attack without search": lambda model, x: attack(model, x, budget=Budget(3), guesses=1, updates=0).cosine,
    "misalignment": lambda model, x: Misalignment(restarts=2)(model, x, budget=Budget(5)),
}


@KINDS
@pytest.mark.parametrize("name", MEASURES)
def test_a_measurement_of_a_tree_is_that_of_its_parts_joined(name, kind):
    measure, x = MEASURES[name], inputs()
    one, other = (measure(model, x) for model in pair(kind))
    tolerance = {"start influence": 0.15, "limit distance": 1e-2}.get(name, 1e-6)  # random signs in another order
    torch.testing.assert_close(other, one, rtol=tolerance, atol=1e-6 if name != "limit distance" else 1e-4)


@KINDS
def test_measurements_from_noise(kind):
    """A contraction has one limit, whatever the noise."""
    x = inputs()
    for model in pair(kind):
        for scale in (1.0, 10.0):
            found = alignment_score(model, x, restarts=2, budget=Budget(200), start=Noise(scale))
            torch.testing.assert_close(found.score, torch.ones(6), rtol=0, atol=1e-6)
        assert sensitivity(model, x, budget=Budget(200)).share > 0.999
        assert (Disagreement(regression=True)(model, x, budget=Budget(200)) < 1e-6).all()
        assert (attack(model, x, budget=STEPS, guesses=2, updates=5).cosine > 0.999).all()


@KINDS
def test_a_counter_starts_again_in_restarts(kind):
    """The step fails unless its counter begins at zero and moves by one."""
    f, x = cell(), inputs()
    seen: list[int] = []

    def counted(state):
        count = int(state["n"][0]) if kind == "dict" else None
        if count is not None:
            seen.append(count)
        return state

    step = split(kind, f)
    model = from_function(
        lambda z, x: step(counted(z), x) if kind == "dict" else step(z, x),
        init=lambda x: start(kind, torch.zeros_like(x)),
        readout=lambda z: joined(kind, z),
    )
    alignment_score(model, x, restarts=2, budget=Budget(7), rng=rng())
    if kind == "dict":
        assert set(seen) == set(range(7))


@KINDS
def test_trajectories_and_basins(kind):
    x = inputs()
    one, other = pair(kind)
    found = [trajectories(model, x, [None], budget=Budget(10)).points for model in (one, other)]
    torch.testing.assert_close(
        found[1].abs(), found[0].abs(), rtol=1e-6, atol=1e-9
    )  # signs of directions are arbitrary
    corners = torch.randn(3, N, generator=rng(2), dtype=torch.float64)
    for model, states in ((one, corners), (other, start(kind, corners))):
        basins = basin_map(model, x[:1], states, budget=Budget(200, tol=1e-8), size=4)
        assert basins.share.tolist() == [1.0]


@KINDS
def test_a_whole_diagnosis(kind):
    x = inputs(12)
    one, other = (diagnose(model, x, budget=64, restarts=2) for model in pair(kind))
    assert (one.verdict.behaviour, one.verdict.path_independent) == ("settles", True)
    assert (other.verdict.behaviour, other.verdict.path_independent) == ("settles", True)
    assert other.regimes == one.regimes
    assert other.contraction == pytest.approx(one.contraction, rel=1e-3)
    assert [note for note in other.notes if "not measured" in note] == []


class Tree(nn.Module):
    """A cell on a dict of a state and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        nn.init.orthogonal_(self.linear.weight, gain=0.5)

    def forward(self, state: dict, u: Tensor) -> dict:
        return {"z": torch.tanh(self.linear(state["z"]) + u), "n": state["n"] + 1}


def begin(u: Tensor) -> dict:
    return {"z": torch.zeros_like(u), "n": torch.zeros(len(u), dtype=torch.long)}


def read(state: dict) -> Tensor:
    return state["z"]


def tree_model() -> EquilibriumModel:
    torch.manual_seed(0)
    return EquilibriumModel(nn.Linear(3, 4), Tree(), read, begin, budget=Budget(40, tol=1e-6))


def test_a_model_with_a_tree_is_saved_and_loaded(tmp_path):
    model, x = tree_model(), torch.randn(5, 3, generator=rng())
    save(model, tmp_path / "model")
    torch.manual_seed(1)
    other = EquilibriumModel(nn.Linear(3, 4), Tree(), read, begin)
    load(tmp_path / "model", into=other)
    assert other.budget == model.budget
    for one, two in zip(model.equilibrium(x).z.values(), other.equilibrium(x).z.values(), strict=True):
        assert torch.equal(one, two)


def test_thinking_about_a_tree():
    model, x = tree_model(), torch.randn(5, 3, generator=rng())
    until = Unchanged(6, within=1e-3)
    thoughts = list(model.think(x, every=2, until=until, restarts=2, rng=rng(), budget=Budget(60)))
    assert thoughts[-1].settled.all()
    assert torch.equal(thoughts[-1].z["n"], thoughts[-1].steps)
    assert thoughts[-1].alignment is not None
    assert (thoughts[-1].alignment > 0.99).all()
    torch.testing.assert_close(thoughts[-1].prediction, thoughts[-1].z["z"])


def test_inputs_are_trees():
    """A dict batch of numbers and token ids."""
    torch.manual_seed(0)
    table = nn.Embedding(7, 4)
    batch = {"x": torch.randn(10, 4, generator=rng()), "tokens": torch.arange(10)[:, None] % 7}

    def step(z: Tensor, batch: dict) -> Tensor:
        return torch.tanh(0.4 * z + batch["x"] + table(batch["tokens"][:, 0]))

    model = from_function(step, init=lambda batch: torch.zeros_like(batch["x"]), readout=lambda z: z)
    found = diagnose(model, batch, budget=64)
    assert (found.examples, found.verdict.path_independent) == (10, True)
    joined_inputs = batch["x"] + table(batch["tokens"][:, 0]).detach()
    plain = from_function(lambda z, x: torch.tanh(0.4 * z + x), init=torch.zeros_like, readout=lambda z: z)
    torch.testing.assert_close(model.equilibrium(batch).z, plain.equilibrium(joined_inputs).z)
