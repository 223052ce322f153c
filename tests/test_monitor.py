"""A monitor measures a model during anybody's training, without affecting it."""

import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
import torch
from problems import rng
from torch import nn

from equilibria import Budget, EquilibriumModel, TrainingMonitor
from equilibria.diagnostics import alignment_score


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(6, 6), nn.Dropout(0.5)

    def forward(self, z, u):
        return torch.tanh(self.dropout(self.linear(z)) + u)


def net() -> EquilibriumModel:
    torch.manual_seed(0)
    return EquilibriumModel(nn.Linear(4, 6), Cell(), nn.Linear(6, 2), budget=8)


def train(model, steps: int, each=lambda step: None):
    """A plain training loop with dropout, and what it ends with."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, steps + 1):
        x = torch.randn(16, 4)
        out = model(x)
        prediction = out.prediction if hasattr(out, "prediction") else out[0]
        loss = nn.functional.cross_entropy(prediction, (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each(step)
    return [parameter.detach().clone() for parameter in model.parameters()]


INPUTS = torch.randn(8, 4, generator=rng())


def test_a_plain_loop_is_not_affected():
    alone, watched, logged = net(), net(), []
    monitor = TrainingMonitor(watched, INPUTS, every=3, log=logged.append)
    before = train(alone, 7)
    after = train(watched, 7, monitor)
    assert all(map(torch.equal, before, after)), "weights and random numbers of the training"
    assert watched.training
    assert watched.cell.dropout.training
    assert [step for step, _ in monitor.history] == [3, 6]
    names = {"step", *(f"equilibria/{name}" for name in ("alignment", "residual", "steps", "settled"))}
    assert [set(entry) for entry in logged] == [names, names]


def test_the_numbers_are_those_of_the_diagnostics():
    model = net().eval()
    found = TrainingMonitor(model, INPUTS, restarts=3, budget=Budget(50, tol=1e-4)).measure()
    aligned = alignment_score(model, INPUTS, restarts=3, budget=Budget(50, tol=1e-4), rng=rng())
    assert found.alignment == pytest.approx(aligned.score.mean().item())
    assert found.steps == aligned.usual.steps.double().mean().item()
    assert found.residual == pytest.approx(aligned.usual.residual.median().item())
    assert found.settled == 1


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own, when it traces
@pytest.mark.parametrize("compiled", ["whole", "in place", "cell"])
def test_compiled_models(compiled):
    plain, model = net(), net()
    if compiled == "whole":
        model = torch.compile(model, backend="eager")
    elif compiled == "in place":
        model.compile(backend="eager")
    else:
        model.cell = torch.compile(model.cell, backend="eager", dynamic=True)
    monitors = [TrainingMonitor(one, INPUTS, every=2) for one in (plain, model)]
    for one, monitor in zip((plain, model), monitors, strict=True):
        train(one, 4, monitor)
    for (_, expected), (_, found) in zip(*(monitor.history for monitor in monitors), strict=True):
        assert found.alignment == pytest.approx(expected.alignment, rel=1e-5)
        assert found.steps == expected.steps
    assert len(monitors[1].history) == 2


def test_two_processes():
    """Real DistributedDataParallel over gloo: the first process measures, and the weights stay equal."""
    script = textwrap.dedent(
        """
        import os, sys, torch, torch.distributed as dist
        sys.path.insert(0, "tests")
        from test_monitor import INPUTS, net, train
        from equilibria import TrainingMonitor
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(net())
        monitor = TrainingMonitor(model, INPUTS, every=2)
        weights = torch.cat([one.flatten() for one in train(model, 4, monitor)])
        both = [torch.empty_like(weights) for _ in range(2)]
        dist.all_gather(both, weights)
        found = f"{dist.get_rank()} {[step for step, _ in monitor.history]} {torch.equal(*both)}"
        os.write(1, (found + os.linesep).encode())  # a line at once, so that those of two processes do not mix
        dist.barrier()
        dist.destroy_process_group()
        """
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--standalone"]
    found = subprocess.run(
        [*command, "--no-python", sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == ["0 [2, 4] True", "1 [] True"]


EVENTS = [
    *("init_end", "train_begin", "train_end", "epoch_begin", "epoch_end", "step_begin", "pre_optimizer_step"),
    *(
        "optimizer_step",
        "substep_end",
        "step_end",
        "evaluate",
        "predict",
        "save",
        "log",
        "prediction_step",
        "push_begin",
    ),
]


def test_the_events_of_a_trainer():
    """The protocol of Hugging Face's CallbackHandler: every event, by name, with these arguments."""
    model = net()
    monitor = TrainingMonitor(model, INPUTS, every=5)
    state, control = SimpleNamespace(global_step=0, log_history=[]), SimpleNamespace(should_log=False)
    extra = {"model": model, "processing_class": None, "optimizer": None, "train_dataloader": None}
    for step in range(1, 11):
        state.global_step = step
        for event in EVENTS:
            assert getattr(monitor, f"on_{event}")(SimpleNamespace(), state, control, **extra) is None
    assert [entry["step"] for entry in state.log_history] == [5, 10]
    assert all("equilibria/alignment" in entry for entry in state.log_history)
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = monitor.missing


def test_a_real_trainer(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x, labels):
            prediction = self.net(x).prediction
            return {"loss": nn.functional.cross_entropy(prediction, labels), "logits": prediction}

    x = torch.randn(64, 4, generator=rng())
    data = [{"x": one, "labels": (one.sum() > 0).long()} for one in x]
    model = Wrapped()
    monitor = TrainingMonitor(model.net, INPUTS, every=4)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=8,
        per_device_train_batch_size=8,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=[monitor])
    trainer.add_callback(TrainingMonitor(model.net, INPUTS, every=3, log=trainer.log))
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "equilibria/alignment" in entry]
    assert [entry["step"] for entry in logged] == [3, 4, 6, 8]


def test_misuse():
    with pytest.raises(ValueError, match="pass at least two inputs"):
        TrainingMonitor(net(), INPUTS[:1])
    with pytest.raises(ValueError, match="every must be an integer >= 1"):
        TrainingMonitor(net(), INPUTS, every=0)
    with pytest.raises(TypeError, match="cannot be measured"):
        TrainingMonitor(nn.Linear(2, 2), INPUTS)
