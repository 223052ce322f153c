"""`evaluate`: its numbers agree with direct computations, and bad data is reported with a remedy."""

import csv
import io
import json
import math
import re
from collections import UserDict
from typing import Any, NamedTuple

import pytest
import torch
from foreign_recursive import IGNORED, made, puzzles
from problems import rng
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from equilibria import Anderson, Budget, Converged, Picard, Status, Unchanged, evaluate
from equilibria.core.answers import Answers
from equilibria.diagnostics import Noise, from_function, from_hrm, from_trm, risk_coverage
from equilibria.diagnostics.restarts import Restart

COUNT, N, CLASSES = 50, 6, 3


def looped(n: int = N, *, gain: float = 1.6):
    """A random recurrent net with several limits, so that restarts and depths matter."""
    generator = rng(5)
    W = gain * torch.randn(n, n, generator=generator) / n**0.5
    V = torch.randn(n, CLASSES, generator=generator)
    return from_function(lambda z, x: torch.tanh(z @ W.T + 0.3 * x), init=torch.zeros_like, readout=lambda z: z @ V)


def examples(count: int = COUNT):
    x = (
        torch.randn(count, N, generator=rng(1))
        * torch.logspace(-2, 1, count)[torch.randperm(count, generator=rng(2))][:, None]
    )
    return x, torch.randint(0, CLASSES, (count,), generator=rng(3))


def loader(size: int = 16):
    return DataLoader(TensorDataset(*examples()), batch_size=size)


def accuracy(prediction: Tensor, y: Tensor) -> float:
    return (prediction.argmax(1) == y).double().mean().item()


@pytest.mark.parametrize("solver", [Picard(), Anderson()], ids=repr)
def test_scores_by_steps(solver):
    model, (x, y) = looped(), examples()
    found = evaluate(model, loader(), budget=40, solver=solver, at=[0, 3, 10, 40])
    for row in found.curve:
        z = torch.zeros_like(x) if row.steps == 0 else model.equilibrium(x, budget=row.steps, solver=solver).z
        assert row.score == pytest.approx(accuracy(model.readout(z), y))
        assert row.evaluations == row.steps * COUNT
    assert found.score is not None
    assert found.score.value == pytest.approx(found.curve[-1].score)
    assert found.evaluations == 40 * COUNT
    assert found.examples == COUNT
    assert [row.steps for row in evaluate(model, loader(), budget=20).curve] == [1, 2, 4, 8, 16, 20]


@pytest.mark.parametrize("refill", [True, False])
@pytest.mark.parametrize(
    "how", [{"until": Unchanged(4)}, {"budget": Budget(60, tol=1e-3)}, {"until": Converged(1e-2), "every": 3}], ids=str
)
def test_early_exit(how, refill):
    """Every example stops where it would stop alone, whatever replaces it."""
    model, (x, y) = looped(), examples()
    how = {"budget": 60, "every": 1} | how
    found = evaluate(model, loader(), **how, refill=refill, rows=8, at=[0, 2, 5, 60])
    alone = model.equilibrium(x, **how, trace=False)
    assert torch.equal(found.each.steps, alone.steps)
    assert torch.equal(found.each.status, alone.status)
    torch.testing.assert_close(found.each.residual, alone.residual, rtol=1e-3, atol=1e-6)
    right = (model.readout(alone.z).argmax(1) == y).float()
    assert found.each.score is not None
    assert torch.equal(found.each.score, right)
    assert found.mean_steps == pytest.approx(alone.steps.double().mean().item())
    assert found.evaluations >= alone.steps.sum()
    assert found.refilled == refill
    for row in found.curve:  # rows that stopped earlier keep their answer
        z = model.equilibrium(x, **how, keep=[row.steps], trace=False).kept[row.steps]
        assert row.score == pytest.approx(accuracy(model.readout(z), y))
        assert row.evaluations == alone.steps.clamp(max=row.steps).sum()
    assert sum(found.status.values()) == COUNT


def test_refill_spares_evaluations():
    how = {"budget": 100, "until": Unchanged(3)}
    found = {refill: evaluate(looped(), loader(), **how, refill=refill) for refill in (True, False)}
    assert found[True].evaluations < found[False].evaluations
    assert found[True].score == found[False].score


class Given(Restart):
    """Initial states that are the same whenever they are asked for."""

    def __init__(self) -> None:
        self.drawn: list[Tensor] = []

    def initial_states(self, limits, rng):
        noise = torch.randn(limits.shape, generator=rng)
        self.drawn.append(noise)
        return noise


def test_restarts_agree_with_a_direct_computation():
    model, (x, y), start = looped(gain=2.5), examples(), Given()
    found = evaluate(model, (x, y), budget=60, rows=COUNT, restarts=6, start=start)
    z = [model.equilibrium(x, z0, budget=60, trace=False) for z0 in (None, *start.drawn)]
    labels = torch.stack([model.readout(one.z).argmax(1) for one in z])  # (solves, examples)
    residual = torch.stack([one.residual for one in z])
    assert [row.solves for row in found.restarts] == [1, 2, 4, 7]
    for row in found.restarts:
        some = labels[: row.solves]
        voted, nearest, consistent = [], [], []
        for i in range(COUNT):
            counts = [int((some[:, i] == some[k, i]).sum()) for k in range(row.solves)]
            voted.append(int(some[counts.index(max(counts)), i] == y[i]))
            nearest.append(int(some[residual[: row.solves, i].argmin(), i] == y[i]))
            limits = [one.z[i] for one in z[: row.solves]]
            cosine = [sum(float(torch.cosine_similarity(a, b, 0)) for b in limits if b is not a) for a in limits]
            best = max(range(row.solves), key=lambda k, cosine=cosine: (round(cosine[k], 5), -k))
            consistent.append(int(some[best, i] == y[i]))
        assert row.single == pytest.approx((some == y).double().mean().item())
        assert row.vote == pytest.approx(sum(voted) / COUNT)
        assert row.lowest_residual == pytest.approx(sum(nearest) / COUNT)
        assert row.most_consistent == pytest.approx(sum(consistent) / COUNT)
        assert row.evaluations == row.solves * 60 * COUNT
    assert len({row.vote for row in found.restarts}) > 1, "restarts change answers, so that the test can fail"
    expected = 1 - (labels[1:] == labels[0]).double().mean(0)
    (curve,) = [curve for curve in found.risk if curve.uncertainty == "disagreement"]
    direct = risk_coverage(expected, (labels[0] != y).double())
    assert curve.risk == pytest.approx(direct.risk.tolist())
    assert curve.area == pytest.approx(direct.risk.mean().item())


def test_restarts_with_early_exit_and_votes_per_token():
    """Tokens are voted on one by one; padding does not count."""
    generator = rng(4)
    W, V = 2.5 * torch.randn(N, N, generator=generator) / N**0.5, torch.randn(N, CLASSES, generator=generator)
    W = W @ W.T  # without negative eigenvalues, nothing oscillates
    model = from_function(lambda z, x: torch.tanh(z @ W + 0.2 * x), init=torch.zeros_like, readout=lambda z: z @ V)
    x = torch.randn(12, 5, N, generator=generator)  # (rows, tokens, N)
    y = torch.randint(0, CLASSES, (12, 5), generator=generator)
    y[:, 4] = -100
    start = Given()
    how = {"budget": 50, "until": Unchanged(5, classes=-1)}
    found = evaluate(model, (x, y), **how, restarts=4, start=start, answers=Answers("classes", -1, per="token"))
    solutions = [model.equilibrium(x, z0, every=1, **how, trace=False) for z0 in (None, *start.drawn)]
    labels = torch.stack([model.readout(one.z).argmax(-1) for one in solutions])
    voted = torch.empty_like(y)
    for i in range(12):
        for j in range(5):
            given = labels[:, i, j].tolist()
            voted[i, j] = max(given, key=lambda label, given=given: (given.count(label), -given.index(label)))
    expected = (voted == y)[:, :4].double().mean()
    assert found.restarts[-1].vote == pytest.approx(expected.item())
    assert found.restarts[-1].evaluations < 50 * 5 * 12


def test_numbers_have_no_vote_and_their_score_does_not_depend_on_batches():
    model = from_function(lambda z, x: 0.5 * z + x, init=torch.zeros_like, readout=lambda z: z)
    x = torch.randn(20, N, generator=rng())
    whole, pieces = (
        evaluate(model, DataLoader(TensorDataset(x, 2 * x + 0.1), batch_size=size), budget=20, restarts=2)
        for size in (20, 10)
    )
    assert whole.restarts[-1].vote is None
    assert whole.each.score is not None
    expected = -(0.1 * N**0.5 / (2 * x + 0.1).norm(dim=1))
    torch.testing.assert_close(whole.each.score, expected.to(whole.each.score), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(pieces.each.score, whole.each.score, rtol=1e-3, atol=1e-4)


def test_random_models_are_reproducible():
    """A random initial state and a random step draw from the generator of the call; restarts draw new starts."""

    def init(x):
        return torch.randn_like(x)

    V = torch.randn(N, CLASSES, generator=rng())
    model = from_function(
        lambda z, x: torch.tanh(z + x + 0.1 * torch.randn_like(z)), init=init, readout=lambda z: z @ V
    )
    state = torch.get_rng_state()
    runs = [evaluate(model, examples(), budget=Budget(30, tol=1e-6), restarts=restarts) for restarts in (0, 0, 3, 3)]
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(runs[0].each.residual, runs[1].each.residual)
    assert runs[2].restarts == runs[3].restarts
    assert runs[2].restarts[-1].single != runs[2].restarts[0].single


def test_without_targets():
    x, _ = examples()
    found = evaluate(looped(), x, budget=20)
    assert found.score is None
    assert found.curve == []
    assert "score" not in Console(record=True).export_text()
    assert found.mean_steps == 20
    with pytest.raises(ValueError, match="which need targets"):
        evaluate(looped(), x, restarts=2)


def test_outputs(tmp_path):
    found = evaluate(looped(), loader(), budget=Budget(30, tol=1e-3), restarts=2, at=[0, 5, 30])
    data = json.loads(found.to_json())
    assert data["format"] == "equilibria-evaluation-1"
    assert data["score"]["value"] == found.score.value if found.score else False
    assert [row["steps"] for row in data["curve"]] == [0, 5, 30]
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [int(line["steps"]) for line in lines] == found.each.steps.tolist()
    assert {line["status"] for line in lines} <= {status.name.lower() for status in Status}
    assert found.each.score is not None
    assert sum(float(line["score"]) for line in lines) == found.each.score.sum()
    found.save_json(tmp_path / "result.json")
    found.save_csv(tmp_path / "result.csv")
    for name in ("figure.png", "figure.svg"):
        found.save_figure(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert len(found.figure().axes) == 4
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(found)
    text = console.export_text()
    for word in ("cell evaluations", "lowest residual", "most consistent", "residual", "disagreement"):
        assert word in text
    assert re.search(r"│ +0 │ +0\.\d+ │ +0 │", text), "numbers that are 0 are shown"
    assert f"{COUNT} examples" in str(found)


class Pair(NamedTuple):
    x: Tensor
    y: Tensor
    difficulty: int


def test_data_of_every_kind():
    model, (x, y) = looped(), examples()
    expected = evaluate(model, (x, y), budget=9).score
    kinds = {
        "list of pairs": ([(x[:20], y[:20]), [x[20:], y[20:]]], {}),
        "generator": ((pair for pair in loader()), {}),
        "dict": ({"inputs": x, "labels": y}, {}),
        "named tuple": (Pair(x, y, 3), {}),
        "dict with more": ({"a": x, "b": y, "c": 3}, {"inputs": "a", "targets": "b"}),
        "functions": ([("set", {"x": x, "y": y})], {"inputs": lambda b: b[1]["x"], "targets": lambda b: b[1]["y"]}),
        "indices": ([(y, "name", x)], {"inputs": 2, "targets": 0}),
    }
    for name, (data, how) in kinds.items():
        assert evaluate(model, data, budget=9, **how).score == expected, name
    tree = from_function(
        lambda z, x: torch.tanh(z + x["a"] + x["b"]),
        init=lambda x: torch.zeros_like(x["a"]),
        readout=lambda z: z[:, :3],
    )
    assert evaluate(tree, {"a": x, "b": x, "y": y}, inputs=["a", "b"], targets="y", budget=3).examples == COUNT
    assert evaluate(tree, [(UserDict(a=x, b=x), y)], budget=3).examples == COUNT  # as tokenizers return inputs


@pytest.mark.parametrize(
    ("data", "how", "message"),
    [
        ([("test", {"inputs": torch.zeros(2, 3)}, 4)], {}, r"a tuple of 0: a str, 1.inputs: \(2, 3\) of .*inputs= and"),
        ({"a": torch.zeros(2, 3), "b": torch.zeros(2), "y": torch.zeros(2)}, {}, "more parts than inputs and.*inputs="),
        ([(torch.zeros(2, 3), "cat")], {}, "targets must be a tensor with a row for each of the 2 inputs.*a batch is"),
        ([(torch.zeros(2, 3), torch.zeros(3))], {}, r"each of the 2 inputs, got \(3,\)"),
        ([{"x": torch.zeros(2, 3)}], {"inputs": "y"}, "has no 'y', which inputs= asks for; a batch is a dict of x"),
        ([("cat", torch.zeros(2))], {}, "inputs must be tensors with one row per example, got a str"),
        ([], {}, "no examples"),
    ],
    ids=["nested", "ambiguous", "text", "rows", "key", "inputs", "empty"],
)  # fmt: skip
def test_unexpected_batches(data, how, message):
    with pytest.raises(ValueError, match=message):
        evaluate(looped(), data, **how)


def test_misuse():
    x, y = examples()
    with pytest.raises(TypeError, match="DataLoader"):
        evaluate(looped(), 3)
    with pytest.raises(ValueError, match=r"at contains \[50\], outside 0..10"):
        evaluate(looped(), (x, y), budget=10, at=[50])
    cell = nn.Linear(N, N, device="meta")
    model = from_function(lambda z, x: cell(z) + x, init=torch.zeros_like, readout=lambda z: z)
    with pytest.raises(ValueError, match="the model is on meta and its inputs are on cpu; pass device='meta'"):
        evaluate(model, (x, y))
    with pytest.raises(TypeError, match="cannot be measured"):
        evaluate(nn.Linear(2, 2), (x, y))


def test_modes_are_restored_and_wrappers_are_opened():
    net = nn.Sequential(nn.Linear(N, N), nn.Dropout(0.5), nn.Tanh())
    model = from_function(lambda z, x: net(z) + x, init=torch.zeros_like, readout=lambda z: z[:, :3])
    model.train()
    x, y = examples()
    first, second = (evaluate(one, (x, y), budget=5) for one in (model, torch.compile(model, backend="eager")))
    assert model.training
    assert net[1].training
    assert torch.equal(first.each.residual, second.each.residual)
    assert not math.isnan(first.each.residual.sum())


def test_the_default_start_of_restarts_is_noise():
    x, y = examples()
    one, other = (evaluate(looped(gain=2.5), (x, y), budget=30, restarts=2, start=start) for start in (None, Noise()))
    assert one.restarts == other.restarts


@pytest.mark.parametrize(("kind", "adapt"), [("trm", from_trm), ("hrm", from_hrm)])
def test_recursive_models_stop_by_their_own_rule(kind, adapt):
    """Dicts of inputs, two states, ignored labels, a q head, and the loaders of these models."""
    batches = [("test", puzzles(9), 9), ("test", puzzles(14), 14)]
    model = adapt(made(kind))
    assert model.halting is not None
    how: dict[str, Any] = {"budget": 12, "until": model.halting | Unchanged(3), "every": 1}
    parts: dict[str, Any] = {"inputs": lambda one: one[1], "targets": lambda one: one[1]["labels"]}
    found = evaluate(model, batches, **how, **parts, rows=5)
    alone = [model.equilibrium(batch, **how, trace=False) for _, batch, _ in batches]
    assert torch.equal(found.each.steps, torch.cat([one.steps for one in alone]))
    assert found.mean_steps < 12
    scores = []
    for (_, batch, _), one in zip(batches, alone, strict=True):
        labels = batch["labels"]
        scores += ((model.readout(one.z).argmax(-1) == labels) | (labels == IGNORED)).all(1).float().tolist()
    assert found.each.score is not None
    assert found.each.score.tolist() == scores


def test_the_benchmark_keeps_its_promise():
    """Evaluations and scores, which do not depend on the machine, not times."""
    import evaluation  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    runs = evaluation.contestants(evaluation.the_net(train=False), evaluation.long_tailed(96))
    most, full = runs["maximum"](), runs["refill"]()
    assert most.score is not None
    assert full.score is not None
    assert full.score.value >= most.score.value - 0.002
    assert most.evaluations > 5 * full.evaluations
