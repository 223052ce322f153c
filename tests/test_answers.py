"""What counts as the same answer, and as the right one."""

import pytest
import torch

from equilibria import Answers, Deadline, EquilibriumModel, Unchanged, diagnose
from equilibria.diagnostics.comparison import Comparison

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
    answers = Comparison(LOGITS, targets)
    assert listed(answers.score(LOGITS)) == RIGHT
    assert listed(answers.wrong(LOGITS)) == [False, False, False, True]
    assert answers.has_margin


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_the_sign_of_a_single_logit(shape):
    logits = torch.tensor([1.0, -1.0, 2.0, -3.0]).view(shape)
    answers = Comparison(logits, torch.tensor([True, False, True, True]))
    assert listed(answers.score(logits)) == RIGHT
    assert answers.same(logits, 2 * logits).all()
    assert not answers.same(logits, -logits).any()
    assert not answers.has_margin


def test_numbers_are_compared_in_one_shape():
    numbers = torch.tensor([1.0, 2.0, 4.0])
    assert listed(Comparison(numbers[:, None], numbers).score(numbers[:, None])) == [0, 0, 0]
    assert Comparison(numbers, None).same(numbers, numbers * 1.001).all()


def test_a_score_where_lower_is_better():
    answers = Comparison(LOGITS, CLASSES, lambda p, t: (p.argmax(1) != t).float(), higher_is_better=False)
    assert listed(answers.wrong(LOGITS)) == [False, False, False, True]


def test_what_is_not_finite_is_no_answer():
    answers = Comparison(LOGITS, None)
    for bad in (torch.nan, torch.inf):
        assert not answers.same(torch.full_like(LOGITS, bad), torch.full_like(LOGITS, bad)).any()
    ruled_out = LOGITS.clone()
    ruled_out[0, 2] = -torch.inf
    assert answers.same(LOGITS, ruled_out).all()
    lost = torch.full_like(LOGITS, torch.nan)
    assert listed(Comparison(LOGITS, torch.zeros(4).long()).score(lost)) == [0, 0, 0, 0]


@pytest.mark.parametrize("targets", [torch.zeros(4, 2).long(), torch.zeros(4, 5), torch.zeros(4)])
def test_targets_that_do_not_fit(targets):
    with pytest.raises(ValueError, match="do not match predictions"):
        Comparison(LOGITS, targets)


def test_a_score_of_the_wrong_shape():
    with pytest.raises(ValueError, match="one number per input"):
        Comparison(LOGITS, CLASSES, lambda p, t: (p.argmax(1) == t).float().mean())


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
        Comparison(prediction, targets)


def test_tied_classes_are_the_same_answer():
    answers = Comparison(LOGITS, None)
    one = torch.tensor([[5.0, 5.0, 1.0], [5.0, 5.0, 1.0], [5.0, 4.9, 1.0]])
    other = torch.tensor([[5.0, 5.0 + 1e-6, 1.0], [5.0, 5.1, 1.0], [4.9, 5.0, 1.0]])
    assert listed(answers.same(one, other)) == [True, False, False]
    logit = Comparison(LOGITS[:, 0], torch.ones(4).bool())
    assert listed(logit.same(torch.tensor([1e-7, 1.0, 2.0]), torch.tensor([-1e-7, -1.0, 2.0]))) == [True, False, True]


def test_small_answers_are_compared_on_the_typical_scale():
    numbers = torch.tensor([[4.0], [2.0], [1e-6]])
    moved = numbers + torch.tensor([[0.0], [0.1], [1e-5]])
    assert listed(Comparison(numbers, None).same(numbers, moved)) == [True, False, True]


def test_two_infinite_predictions_are_unchanged():
    answers, lost = Comparison(LOGITS, None), torch.full_like(LOGITS, torch.nan)
    assert answers.unchanged(lost, lost).all()
    assert not answers.unchanged(LOGITS, lost).any()


# ---- how predictions are read ----

TOKENS = torch.randn(6, 7, 5, generator=torch.Generator().manual_seed(0))  # (batch, positions, classes)
RIGHT_TOKENS = TOKENS.argmax(-1)


@pytest.mark.parametrize(
    ("classes", "scores"), [(-1, TOKENS), (2, TOKENS), (None, TOKENS), (1, TOKENS.mT), (None, TOKENS.mT)]
)
def test_classes_in_any_dimension(classes, scores):
    comparison = Comparison(scores, RIGHT_TOKENS, answers=Answers(classes=classes))
    assert listed(comparison.score(scores)) == [1] * 6
    assert listed(comparison.right(scores)) == [[True] * 7] * 6
    assert listed(comparison.score(-scores)) == [0] * 6
    assert listed(Comparison(scores, (RIGHT_TOKENS + 1) % 5, answers=Answers(classes=classes)).score(scores)) == [0] * 6


def test_a_length_equal_to_the_vocabulary_is_asked_about():
    square, targets = TOKENS[:, :5], RIGHT_TOKENS[:, :5]
    for given in (None, targets, torch.eye(5).expand(6, 5, 5)):  # the last is one-hot in both dimensions
        with pytest.raises(ValueError, match=r"classes in dimension 1 or 2; pass classes=1 or classes=-1"):
            Comparison(square, given)
    assert listed(Comparison(square, targets, answers=Answers(classes=-1)).score(square)) == [1] * 6
    assert Comparison(square, answers=Answers("numbers")).answers.kind == "numbers"
    with pytest.raises(ValueError, match="pass classes=1 or classes=-1"):  # a score does not say what is equal
        Comparison(square, targets, lambda prediction, targets: prediction[:, 0, 0])


def test_ignored_labels_do_not_count():
    targets = RIGHT_TOKENS.clone()
    targets[:, 4:] = -100
    comparison = Comparison(TOKENS, targets)
    changed = TOKENS.clone()
    changed[:, 4:] = -changed[:, 4:]
    assert listed(comparison.score(changed)) == [1] * 6
    assert comparison.same(TOKENS, changed).all()
    assert comparison.unchanged(TOKENS, changed).all()
    changed[2, 0] = -changed[2, 0]
    changed[3, 5] = torch.nan
    assert listed(comparison.wrong(changed)) == [False, False, True, False, False, False]
    rows = torch.tensor([2, 5, 2])
    assert listed(comparison.same(TOKENS[rows], changed[rows], rows)) == [False, True, False]
    with pytest.raises(ValueError, match=r"from -100 to 4, but there are 5 classes.*ignore_index="):
        Comparison(TOKENS, targets, answers=Answers(ignore_index=-1))
    targets[1] = -100
    with pytest.raises(ValueError, match="1 examples have no target that counts, such as 1; remove them"):
        Comparison(TOKENS, targets)


@pytest.mark.parametrize("kind", ["classes", "numbers", "bits"])
def test_a_mask_is_like_ignored_labels(kind):
    mask = torch.ones(6, 7, dtype=torch.bool)
    mask[:, 4:] = False
    scores = TOKENS if kind == "classes" else TOKENS[..., 0]
    targets = {"classes": RIGHT_TOKENS, "numbers": scores.clone(), "bits": scores > 0}[kind]
    comparison = Comparison(scores, targets, mask=mask, answers=Answers(kind))
    changed = scores.clone()
    changed[:, 4:] = -changed[:, 4:]
    assert listed(comparison.score(changed)) == listed(comparison.score(scores))
    assert comparison.same(scores, changed).all()
    assert listed(comparison.score(scores)) == [0 if kind == "numbers" else 1] * 6
    changed[0, 0] = -changed[0, 0] - 1
    assert listed(comparison.score(changed))[0] < listed(comparison.score(scores))[0]
    assert not comparison.same(scores, changed)[0]


@pytest.mark.parametrize(
    ("mask", "error", "words"),
    [
        (torch.ones(6, 7), TypeError, "mask must be bool"),
        (torch.ones(6, 5, dtype=torch.bool), ValueError, r"mask \(6, 5\) does not match targets \(6, 7\)"),
        ([True], TypeError, "mask must be a tensor, got a list"),
    ],
)
def test_a_mask_that_does_not_fit(mask, error, words):
    with pytest.raises(error, match=words):
        Comparison(TOKENS, RIGHT_TOKENS, mask=mask)
    with pytest.raises(ValueError, match="there are none"):
        Comparison(TOKENS[:, 0], mask=torch.ones(6, dtype=torch.bool))


def test_numbers_are_never_taken_for_classes():
    one = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert Comparison(one).same(one, 5 * one).all()  # the same class
    numbers = Comparison(one, answers=Answers("numbers"))
    assert not numbers.same(one, 5 * one).any()
    assert not numbers.has_margin
    assert Comparison(one).note == (
        "Predictions (2, 2) are read as scores of 2 classes in dimension 1. If they are numbers, "
        "pass answers='numbers'."
    )
    assert numbers.note is None


def test_bits():
    logits = torch.tensor([[1.0, -1.0, 2.0], [1.0, 1.0, 1.0]])
    targets = torch.tensor([[1, 0, 1], [1, 0, 0]])
    for answers in (Answers(), Answers("bits")):
        found = Comparison(logits, targets, answers=answers)
        assert listed(found.score(logits)) == [1, 0]
        assert listed(found.right(logits)) == [[True] * 3, [True, False, False]]


def test_every_token_has_an_answer():
    """Half of the first four positions of row 0 are wrong; the others do not count."""
    targets = RIGHT_TOKENS.clone()
    targets[:, 4:] = -100
    comparison = Comparison(TOKENS, targets, answers=Answers(per="token"))
    changed = TOKENS.clone()
    changed[0, 2:] = -changed[0, 2:]
    assert listed(comparison.score(changed)) == [0.5, 1, 1, 1, 1, 1]
    assert listed(comparison.same(TOKENS, changed)) == [0.5, 1, 1, 1, 1, 1]
    assert listed(comparison.unchanged(TOKENS, changed)) == [False] + [True] * 5
    assert comparison.wrong(changed) is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"kind": "class"}, ValueError, "'classes', 'bits' or 'numbers', got 'class'"),
        ({"classes": 1.5}, TypeError, "the dimension of the classes"),
        ({"kind": "numbers", "classes": 1}, ValueError, "have no dimension of classes; omit classes"),
        ({"per": "word"}, ValueError, "'example' or 'token'"),
    ],
)
def test_answers_that_make_no_sense(options, error, words):
    with pytest.raises(error, match=words):
        Answers(**options)


@pytest.mark.parametrize(
    ("answers", "targets", "words"),
    [
        (Answers(classes=0), None, "no dimension of classes 0; dimension 0 is the batch"),
        (Answers(classes=3), None, "no dimension of classes 3"),
        (Answers(classes=1), RIGHT_TOKENS, r"targets \(6, 7\) do not match .* in dimension 1; pass integers \(6, 5\)"),
        (Answers("classes"), torch.zeros(6, 7, 5), "do not match"),
    ],
)
def test_a_dimension_that_does_not_fit(answers, targets, words):
    with pytest.raises(ValueError, match=words):
        Comparison(TOKENS, targets, answers=answers)


def test_a_model_knows_its_answers():
    """Conditions and measurements use what the model knows, unless they are told otherwise."""
    scores = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))
    model = EquilibriumModel(lambda x: x, lambda z, x: x, lambda z: z, torch.zeros_like, answers=Answers(classes=-1))
    assert model.equilibrium(scores, until=Unchanged(2), every=1, budget=9).steps.tolist() == [3] * 4
    report = diagnose(model, scores, scores.argmax(-1), budget=8, restarts=2, attacks=False)
    assert report.score == 1
    assert diagnose(model, scores, scores.argmax(1), classes=1, budget=8, restarts=2, attacks=False).score == 1
    model.answers = Answers()
    with pytest.raises(ValueError, match="pass classes=1 or classes=-1"):
        model.equilibrium(scores, until=Unchanged(2), every=1, budget=9)
    with pytest.raises(ValueError, match="pass classes=1 or classes=-1"):
        diagnose(model, scores, scores.argmax(-1), budget=8)
    model.answers = Answers("numbers")
    with pytest.raises(ValueError, match=r"predictions are numbers.*within=1e-3"):
        list(model.think(scores, until=Unchanged(2) | Deadline(9)))
