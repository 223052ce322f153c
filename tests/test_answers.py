"""What counts as the same answer, and as the right one."""

import pytest
import torch

from equilibria.diagnostics.doctor.answers import Answers

LOGITS = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 5.0], [4.0, 0.0, 0.0]])
CLASSES = torch.tensor([0, 1, 2, 1])
RIGHT = [1.0, 1.0, 1.0, 0.0]


def listed(found):
    return found.tolist()


@pytest.mark.parametrize(
    "targets",
    [CLASSES, CLASSES[:, None], torch.eye(3)[CLASSES], torch.eye(3)[CLASSES].bool(), CLASSES.int()],
    ids=["classes", "a column", "one-hot", "one-hot bool", "int32"],
)
def test_classes_in_any_form(targets):
    answers = Answers(LOGITS, targets)
    assert listed(answers.score(LOGITS)) == RIGHT
    assert listed(answers.wrong(LOGITS)) == [False, False, False, True]
    assert answers.has_margin


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_the_sign_of_a_single_logit(shape):
    logits = torch.tensor([1.0, -1.0, 2.0, -3.0]).view(shape)
    answers = Answers(logits, torch.tensor([True, False, True, True]))
    assert listed(answers.score(logits)) == RIGHT
    assert answers.same(logits, 2 * logits).all()
    assert not answers.same(logits, -logits).any()
    assert not answers.has_margin


def test_numbers_are_compared_in_one_shape():
    numbers = torch.tensor([1.0, 2.0, 4.0])
    assert listed(Answers(numbers[:, None], numbers).score(numbers[:, None])) == [0, 0, 0]
    assert Answers(numbers, None).same(numbers, numbers * 1.001).all()


def test_a_score_where_lower_is_better():
    answers = Answers(LOGITS, CLASSES, lambda p, t: (p.argmax(1) != t).float(), higher_is_better=False)
    assert listed(answers.wrong(LOGITS)) == [False, False, False, True]


def test_what_is_not_finite_is_no_answer():
    answers = Answers(LOGITS, None)
    for bad in (torch.nan, torch.inf):
        assert not answers.same(torch.full_like(LOGITS, bad), torch.full_like(LOGITS, bad)).any()
    ruled_out = LOGITS.clone()
    ruled_out[0, 2] = -torch.inf
    assert answers.same(LOGITS, ruled_out).all()
    lost = torch.full_like(LOGITS, torch.nan)
    assert listed(Answers(LOGITS, torch.zeros(4).long()).score(lost)) == [0, 0, 0, 0]


@pytest.mark.parametrize("targets", [torch.zeros(4, 2).long(), torch.zeros(4, 5), torch.zeros(4)])
def test_targets_that_do_not_fit(targets):
    with pytest.raises(ValueError, match="do not match predictions"):
        Answers(LOGITS, targets)


def test_a_score_of_the_wrong_shape():
    with pytest.raises(ValueError, match="one number per input"):
        Answers(LOGITS, CLASSES, lambda p, t: (p.argmax(1) == t).float().mean())


@pytest.mark.parametrize(
    ("prediction", "targets", "words"),
    [
        (LOGITS, CLASSES + 1, "targets range from 1 to 3, but there are 3 classes, 0..2"),
        (LOGITS, CLASSES - 1, "targets range from -1 to 1, but there are 3 classes"),
        (LOGITS[:, :1], torch.tensor([1, -1, 1, 1]), "targets range from -1 to 1, but a single logit"),
        (LOGITS[:, 0], torch.tensor([1, 2, 1, 1]), "targets range from 1 to 2, but a single logit"),
    ],
)
def test_impossible_labels_raise(prediction, targets, words):
    with pytest.raises(ValueError, match=words):
        Answers(prediction, targets)


def test_tied_classes_are_the_same_answer():
    answers = Answers(LOGITS, None)
    one = torch.tensor([[5.0, 5.0, 1.0], [5.0, 5.0, 1.0], [5.0, 4.9, 1.0]])
    other = torch.tensor([[5.0, 5.0 + 1e-6, 1.0], [5.0, 5.1, 1.0], [4.9, 5.0, 1.0]])
    assert listed(answers.same(one, other)) == [True, False, False]
    logit = Answers(LOGITS[:, 0], torch.ones(4).bool())
    assert listed(logit.same(torch.tensor([1e-7, 1.0, 2.0]), torch.tensor([-1e-7, -1.0, 2.0]))) == [True, False, True]


def test_small_answers_are_compared_on_the_typical_scale():
    numbers = torch.tensor([[4.0], [2.0], [1e-6]])
    moved = numbers + torch.tensor([[0.0], [0.1], [1e-5]])
    assert listed(Answers(numbers, None).same(numbers, moved)) == [True, False, True]


def test_two_infinite_predictions_are_unchanged():
    answers, lost = Answers(LOGITS, None), torch.full_like(LOGITS, torch.nan)
    assert answers.unchanged(lost, lost).all()
    assert not answers.unchanged(LOGITS, lost).any()
