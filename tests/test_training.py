"""Training learns, resumes bit-identically, and keeps the weights that the recipe asks for."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from equilibria import Anderson, Backprop, Budget, Implicit
from equilibria.io.folders import pack, unpack
from equilibria.nets import ConvNet, DeepThinking, Feedforward
from equilibria.tasks import EdgeCopy, Mazes, PrefixSum
from equilibria.training import (
    DEPTHS,
    EXTRAS,
    Began,
    Ended,
    Evaluated,
    Evaluation,
    Fixed,
    Measuring,
    Mixed,
    Optim,
    Pretraining,
    Projected,
    Recipe,
    StateNoise,
    Stepped,
    Trainer,
    TrainingDiverged,
    Uniform,
    measure,
    train,
)
from equilibria.training.measurement import Measurement, selection_score
from equilibria.training.trainer import learning_rate

SMALL = Recipe(
    task=PrefixSum(train_difficulties=(6, 8)),
    net=ConvNet(8),
    start=Mixed(),
    depth=Uniform(2, 4),
    optim=Optim(steps=12, batch=8, lr=1e-2, averaging=0.9, schedule="cosine", warmup=2),
    evaluation=Evaluation(at=((6, 4), (8, 8)), every=4, examples=12),
)

IMAGE_NET = ConvNet(8, injection="concat", norm="channel", weight_norm=True)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def trained(recipe, steps=None):
    trainer = Trainer(recipe)
    while not trainer.done and trainer.step_count != steps:
        trainer.step()
    return trainer


@pytest.mark.parametrize("cut", [1, 5, 11])
@pytest.mark.parametrize(
    "recipe",
    [
        SMALL,
        replace(SMALL, pool=40),
        replace(SMALL, extras=tuple(kind() for kind in EXTRAS.values())),
        replace(SMALL, gradient=Implicit(), solver=Anderson(), pretraining=Pretraining(6, Fixed(2))),
        replace(SMALL, task=Mazes(train_difficulties=(3,)), net=IMAGE_NET, evaluation=Evaluation()),
    ],
    ids=["fresh", "pool", "extras", "pretraining", "images"],
)
def test_going_on_from_saved_tensors_is_the_same_to_the_last_bit(recipe, cut):
    whole = trained(recipe)
    first = trained(recipe, cut)
    second = Trainer(recipe)
    second.load_state_dict(unpack(pack(first.state_dict()), Path("state")))
    first.step()  # must not disturb what was taken from it
    while not second.done:
        second.step()
    assert equal(whole.state_dict(), second.state_dict())


def test_it_learns():
    recipe = Recipe(
        task=EdgeCopy(train_difficulties=(4,)),
        depth=Fixed(4),
        optim=Optim(steps=150, batch=32, lr=5e-3),
        evaluation=Evaluation(at=((4, 10),), examples=50),
    ).override({"net": "graph"})
    trainer = Trainer(recipe)
    before = measure(trainer.model(), recipe.task, 6, Budget(10), examples=50)
    while not trainer.done:
        trainer.step()
    after = measure(trainer.model(), recipe.task, 6, Budget(10), examples=50, alignment_examples=20)
    assert after.score < 0.05 * after.constant < before.score
    assert after.constant == pytest.approx(1 / 3, rel=0.1)
    assert 0.9 < after.alignment <= 1


def test_the_averaged_weights_are_the_running_mean():
    trainer = Trainer(SMALL)
    mean = weights(trainer.net)
    for step in range(5):
        trainer.step()
        decay = min(0.9, (1 + step) / (10 + step))
        mean = {name: decay * mean[name] + (1 - decay) * value for name, value in weights(trainer.net).items()}
    for name, value in weights(trainer.model()).items():
        torch.testing.assert_close(value, mean[name], rtol=1e-5, atol=1e-6)


def test_the_best_weights_are_kept_and_of_equals_the_latest():
    trainer = Trainer(replace(SMALL, select="best"))
    seen = []
    for score in (0.2, 0.5, 0.5, 0.1):
        trainer.step()
        seen.append(weights(trainer.averaged))
        trainer.keep_if_best(score)
    assert equal(weights(trainer.model()), seen[2])
    last = Trainer(SMALL)
    last.step()
    last.keep_if_best(0.9)
    last.step()
    assert equal(weights(last.model()), weights(last.averaged))


def measured(difficulty, score, alignment):
    numbers = dict.fromkeys(Measurement.__dataclass_fields__, 0)
    return Measurement(**numbers | {"difficulty": difficulty, "score": score, "alignment": alignment})


@pytest.mark.parametrize(("select", "chosen"), [("best", 0), ("alignment", 1)])
def test_weights_are_selected_by_labels_or_by_alignment_at_other_difficulties(select, chosen):
    recipe = replace(SMALL, select=select, evaluation=Evaluation(at=((6, 4), (30, 8))))
    candidates = [
        [measured(6, 0.9, 0.1), measured(30, 0.8, 0.3)],  # right on harder strings, and path dependent
        [measured(6, 0.9, 0.1), measured(30, 0.2, 0.9)],
        [measured(6, 0.2, 0.9), measured(30, 0.2, 0.9)],  # unlearned
        [measured(6, 0.9, 0.1), measured(30, 0.2, math.nan)],  # every restart diverges
    ]
    scores = [selection_score(one, recipe) for one in candidates]
    assert scores.index(max(scores)) == chosen


def test_tiny_differences_of_alignment_do_not_decide():
    recipe = replace(SMALL, select="alignment", evaluation=Evaluation(at=((6, 4), (30, 8))))
    one, other, less = (
        selection_score([measured(6, 1.0, 1.0), measured(30, 0.0, alignment)], recipe)
        for alignment in (0.99999999, 0.9999, 0.998)
    )
    assert one == other > less


def test_selection_by_errors_prefers_small_ones():
    recipe = replace(SMALL, task=EdgeCopy(), evaluation=Evaluation(at=((10, 4),)))
    assert selection_score([measured(10, 0.1, 0.5)], recipe) > selection_score([measured(10, 0.2, 0.5)], recipe)


def test_a_pool_is_all_there_is():
    trainer = Trainer(replace(SMALL, pool=6, task=PrefixSum(train_difficulties=(20,))))
    seen = {tuple(row.flatten().tolist()) for _ in range(40) for row in trainer._batch().x}
    assert len(seen) == 6


def test_all_training_difficulties_are_drawn():
    trainer = Trainer(SMALL)
    assert {trainer._batch().difficulty for _ in range(30)} == {6, 8}


def test_pretraining_unrolls_whatever_the_recipe_solves_with():
    """The first steps must be those of a recipe that unrolls from the beginning."""
    later = replace(SMALL, solver=Anderson(), gradient=Implicit(), pretraining=Pretraining(6, Uniform(2, 4)))
    plain = replace(SMALL, gradient=Backprop())
    assert equal(trained(later, 6).state_dict(), trained(plain, 6).state_dict())
    assert not equal(trained(later, 8).state_dict(), trained(plain, 8).state_dict())


def test_pretraining_with_a_rate_of_its_own_is_the_training_that_it_would_be_alone():
    optim = replace(SMALL.optim, steps=6, schedule="cosine", warmup=2)
    alone = replace(SMALL, optim=optim)
    later = replace(
        SMALL,
        optim=replace(optim, steps=10, lr=1e-5),
        solver=Anderson(),
        gradient=Implicit(),
        pretraining=Pretraining(6, SMALL.depth, lr=optim.lr),
    )
    assert equal(trained(later, 6).state_dict(), trained(alone, 6).state_dict())
    trainer = trained(later, 6)
    rates = [trainer.step().lr for _ in range(4)]
    assert rates == pytest.approx([learning_rate(replace(optim, steps=4, lr=1e-5), step) for step in range(4)])


def test_what_pretraining_alone_has_made_is_never_the_best():
    recipe = replace(SMALL, select="best", gradient=Implicit(), pretraining=Pretraining(2))
    trainer, seen = Trainer(recipe), []
    for score in (0.9, 0.9, 0.2, 0.1):
        trainer.step()
        seen.append(weights(trainer.averaged))
        trainer.keep_if_best(score)
    assert equal(weights(trainer.model()), seen[2])


def test_pretraining_may_be_truncated_and_disturbed_and_what_follows_is_not():
    noise, short = (StateNoise(0.5),), Uniform(3, 5)
    plain = replace(SMALL, depth=short, gradient=Backprop(last=2), extras=noise)
    later = replace(plain, solver=Anderson(), gradient=Implicit(), pretraining=Pretraining(6, short, last=2))
    assert equal(trained(later, 6).state_dict(), trained(plain, 6).state_dict())
    quiet = Trainer(replace(later, extras=()))
    quiet.load_state_dict(trained(later, 6).state_dict())
    quiet.step()
    assert equal(quiet.state_dict(), trained(later, 7).state_dict())


@pytest.mark.parametrize("net", [Feedforward(ConvNet(8), depth=3), DeepThinking(8), ConvNet(8, injection="none")])
def test_baselines_train_too(net):
    start = {} if isinstance(net, Feedforward) else {"start": Projected()}
    few = replace(SMALL, task=PrefixSum(train_difficulties=(6,)), pool=4, optim=replace(SMALL.optim, steps=60))
    trainer = Trainer(replace(few, net=net, depth=Fixed(2), **start))
    losses = [trainer.step().loss for _ in range(60)]
    assert losses[0] == pytest.approx(math.log(2), rel=0.5)  # it guesses at first
    assert sum(losses[-10:]) / 10 < 0.8 * losses[0]  # and learns four strings by heart


def test_a_loss_that_is_never_finite_ends_the_training_with_advice():
    recipe = replace(SMALL, optim=replace(SMALL.optim, steps=100, warmup=0, lr=1e30, clip=0.0, schedule="constant"))
    with pytest.raises(TrainingDiverged, match=r"lower optim\.lr"):
        trained(replace(recipe, net=ConvNet(8, norm="none")))


def test_threads_of_evaluation_do_not_disturb_training(tmp_path):
    """Evaluations draw from generators of their own."""
    with_them = train(SMALL, tmp_path / "a").model()
    without = train(replace(SMALL, evaluation=Evaluation()), tmp_path / "b").model()
    assert equal(weights(with_them), weights(without))


def test_a_run_records_what_it_measured(tmp_path):
    run = train(SMALL, tmp_path / "run")
    lines = run.metrics()
    evaluations = [line for line in lines if "evaluation" in line]
    assert [line["step"] for line in evaluations] == [4, 8, 12]
    assert [(one["difficulty"], one["steps"]) for one in evaluations[0]["evaluation"]] == [(6, 4), (8, 8)]
    assert all(0 <= one["score"] <= 1 and -1 <= one["alignment"] <= 1 for one in evaluations[0]["evaluation"])
    assert [line["step"] for line in lines if "loss" in line] == [10, 12]
    assert run.summary["cell_evaluations"] >= 12 * 8 * 2
    assert run.summary["id"] == SMALL.id
    again = [measure(run.model(), SMALL.task, 6, SMALL.evaluation.budget(4), examples=12, alignment_examples=12)]
    assert again[0].score == pytest.approx(run.summary["measurements"][0]["score"])


def test_every_event_is_reported_in_order(tmp_path):
    events = []
    train(SMALL, tmp_path / "run", on_progress=events.append)
    assert events[0] == Began(0)
    measuring = events[events.index(Ended()) + 1 :]  # the final measurement follows the training
    assert all(isinstance(event, Measuring) for event in measuring)
    assert measuring[-1] == Measuring(1.0)
    assert [event.step for event in events if isinstance(event, Stepped)] == list(range(1, 13))
    evaluated = [event for event in events if isinstance(event, Evaluated)]
    assert [event.step for event in evaluated] == [4, 8, 12]
    assert all([one.difficulty for one in event.measurements] == [6, 8] for event in evaluated)
    seen = []

    def fail(event):
        seen.append(event)
        if isinstance(event, Stepped):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        train(SMALL, tmp_path / "failed", on_progress=fail)
    assert seen[-1] == Ended(), "also if the training fails"


@pytest.mark.parametrize("depth", [kind() for kind in DEPTHS.values()])
def test_no_depth_exceeds_its_most(depth):
    rng = torch.Generator().manual_seed(0)
    drawn = [replace(depth, most=9).draw(rng) if depth.most == 256 else depth.draw(rng) for _ in range(2000)]
    assert max(drawn) == (9 if depth.most == 256 else depth.most)
