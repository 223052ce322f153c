"""The doctor looks past the trained steps, and knows what it does not see in the limits."""

import math

import pytest
import torch
from looped import CONTRACTION, QUICK, Looped, inputs
from problems import rng
from torch import Tensor, nn

from equilibria.diagnostics import diagnose, from_function
from equilibria.diagnostics.doctor.time_limit import Extent, extent

NO_LIMIT = {"attacks": False, "restarts": 2, "seconds": math.inf}
FORBIDDEN = ("may help", "will help")


def overthinking(rate: float, right_until: int):
    """Right for the first steps, then a disturbance that grows at every step takes over; and its inputs and targets."""
    x = inputs()

    def step(z: Tensor, x: Tensor) -> Tensor:
        return torch.cat((0.5 * z[:, :6] + x, rate * z[:, 6:] + 1e-7), 1)

    def read(z: Tensor) -> Tensor:
        return z[:, :6] + torch.eye(6)[:1] * z[:, 6:].clamp(max=1e6)

    model = from_function(step, init=lambda x: torch.zeros(len(x), 7), readout=read)
    z = model.init(x)
    for _ in range(right_until):
        z = step(z, x)
    assert (read(z).argmax(1) == x.argmax(1)).all()  # as trained
    return model, x, x.argmax(1)


class TestLookingAhead:
    @pytest.mark.parametrize("rate", [1.1, 1.41, 1.81])
    def test_a_net_that_is_right_at_its_trained_depth_and_falls_apart(self, rate):
        """With 12 steps alone it is perfect; ten times as many show that it is not."""
        trained = 12
        model, x, y = overthinking(rate, trained)
        found = diagnose(model, x, y, trained_steps=trained, **NO_LIMIT)
        assert found.steps >= 10 * trained
        assert found.trained_steps == trained
        assert found.verdict.more_steps == "hurt"
        assert found.curve.score is not None
        assert found.curve.score[found.curve.steps.index(trained)] == 1.0
        assert f"the score is 1 after {trained} steps" in " ".join(found.verdict.sentences)

    @pytest.mark.parametrize("rate", [1.1, 1.41, 1.81])
    def test_without_looking_ahead_it_never_promises_help(self, rate):
        """A perfect score, a contraction rate above 1 and a growing norm are no reasons for more steps."""
        trained = 12
        model, x, y = overthinking(rate, trained)
        for targets in (y, None):
            found = diagnose(model, x, targets, budget=trained, **NO_LIMIT)
            assert found.verdict.more_steps not in FORBIDDEN
            assert not any("larger budget" in remedy for remedy in found.verdict.remedies)

    def test_a_growing_norm_is_not_waited_for(self):
        """The norm grows 36-fold in the second half, which is less than counts as a divergence."""
        grows = Looped(lambda z, x: 1.127 * z + x)
        found = diagnose(grows, inputs(), **{**QUICK, "budget": 60})
        assert found.curve.growth == pytest.approx(36, rel=0.15)
        assert found.verdict.behaviour == "keeps growing"
        assert found.verdict.more_steps not in FORBIDDEN
        assert not any("larger budget" in remedy for remedy in found.verdict.remedies)

    def test_by_default_it_takes_ten_times_the_models_steps(self):
        model = from_function(CONTRACTION.step, init=torch.zeros_like, readout=lambda z: z)
        assert diagnose(model, inputs(4), **NO_LIMIT).steps == 10 * model.budget.steps
        assert diagnose(model, inputs(4), trained_steps=3, **NO_LIMIT).steps == 200

    def test_a_budget_below_the_trained_steps(self):
        with pytest.raises(ValueError, match="smaller than trained_steps"):
            diagnose(CONTRACTION, inputs(), trained_steps=20, budget=10)

    def test_more_steps_help_is_measured(self):
        """A wave that moves one place per step, and an answer at the other end."""
        n = 40
        model = from_function(
            lambda z, x: torch.cat((x[:, :1], z[:, :-1]), 1),
            init=lambda x: torch.zeros(len(x), n),
            readout=lambda z: z[:, -1:],
        )
        x = torch.randn(30, 1, generator=rng())
        found = diagnose(model, x, (x > 0)[:, 0], trained_steps=10, **NO_LIMIT)
        assert found.verdict.more_steps == "will help"
        assert found.verdict.enough_steps == n
        assert f"; {n} are enough" in found.verdict.sentences[-1]

    def test_the_fewest_steps_with_the_same_score(self):
        """The state converges for long, but the sign of its only number is right from step 3 on."""
        slow = from_function(
            lambda z, x: torch.where(z == 0, -4 * x, 0.5 * z + x), init=torch.zeros_like, readout=lambda z: z
        )
        x = inputs()[:, :1]
        found = diagnose(slow, x, x > 0, trained_steps=20, **NO_LIMIT)
        assert (found.verdict.more_steps, found.verdict.enough_steps) == ("will not help", 3)


class TestForecast:
    @pytest.mark.parametrize("rate", [0.95, 0.99, 0.998])
    def test_it_is_about_how_long_the_contraction_takes(self, rate):
        """The steps until 95 % of the residuals are small, and small in relation to 1 - rate."""
        slow = Looped(lambda z, x: rate * z + (1 - rate) * x)
        slow.init = lambda x: 3 * x.flip(0) + x
        found = diagnose(slow, inputs(), **{**QUICK, "budget": 40}).verdict
        assert found.behaviour == "not settled within the budget"
        forecast = found.steps_to_settle
        assert forecast is not None
        assert f"needs about {forecast - 40} more steps" in found.sentences[2]
        assert any(f"of about {forecast} steps" in remedy for remedy in found.remedies)
        x, needed = inputs(), 0
        z = slow.init(x)
        while True:
            needed, after = needed + 1, slow.step(z, x)
            small = (after - z).norm(dim=1) / after.norm(dim=1) <= min(1e-4, 1e-2 * (1 - rate))
            if small.double().mean() >= 0.95:
                break
            z = after
        assert forecast == pytest.approx(needed, rel=0.25)

    def test_without_contraction_there_is_none(self):
        for step in (lambda z, x: z + x, lambda z, x: 1.2 * z + x, lambda z, x: 0.1 * z + x):
            assert diagnose(Looped(step), inputs(), **QUICK).verdict.steps_to_settle is None


class TestInputs:
    def test_a_step_that_never_sees_its_input(self):
        """As in ALBERT, and in deep-thinking nets without recall."""
        blind = from_function(lambda z, x: torch.tanh(1.2 * z), init=lambda x: x, readout=lambda z: z)
        found = diagnose(blind, inputs(), **QUICK).verdict
        assert found.sees_input is False
        assert any("never sees its input" in sentence for sentence in found.sentences)
        assert "Inject the input at every step" in found.remedies[0]

    def test_an_input_that_is_seen(self):
        assert diagnose(CONTRACTION, inputs(), **QUICK).verdict.sees_input is True
        same = inputs()[:1].expand(12, 6)
        assert diagnose(CONTRACTION, same, **QUICK).verdict.sees_input is None

    def test_an_input_that_is_carried_in_the_state_is_seen(self):
        tokens = torch.arange(12)[:, None] % 5
        table = nn.Embedding(5, 4)

        def step(state: dict, _: Tensor) -> dict:
            return {"z": 0.5 * state["z"] + table(state["tokens"][:, 0]), "tokens": state["tokens"]}

        model = from_function(
            step, init=lambda x: {"z": torch.zeros(len(x), 4), "tokens": x}, readout=lambda state: state["z"]
        )
        assert diagnose(model, tokens, **QUICK).verdict.sees_input is True


class TestClocks:
    def test_a_counter_is_no_drift(self):
        """The counter is a floating-point leaf. It moves for ever, and restarts must not change it."""

        def step(state: tuple, x: Tensor) -> tuple:
            z, t = state
            return 0.5 * z + x + 0.01 * torch.exp(-t), t + 1

        model = from_function(
            step, init=lambda x: (torch.zeros_like(x), torch.zeros(len(x), 1)), readout=lambda state: state[0]
        )
        found = diagnose(model, inputs(), **QUICK)
        assert (found.verdict.behaviour, found.verdict.path_independent) == ("settles", True)
        assert any("'1' in its state counts steps" in note for note in found.notes)

    def test_a_clock_with_a_last_time(self):
        """As the table of a universal transformer: the solve ends where the table ends."""
        times = nn.Embedding(30, 6)

        def step(state: tuple, x: Tensor) -> tuple:
            z, t = state
            return 0.5 * z + x + 0.1 * times(t.long()[:, 0]), t + 1

        model = from_function(
            step, init=lambda x: (torch.zeros_like(x), torch.zeros(len(x), 1)), readout=lambda state: state[0]
        )
        found = diagnose(model, inputs(), trained_steps=10, **NO_LIMIT)
        assert found.steps == 30
        assert any("Step 31 failed" in note and "IndexError" in note for note in found.notes)
        assert len(found.alignment) == 3

    def test_every_kind_of_clock_is_noted(self):
        def timed(z: Tensor, x: Tensor, *, t: Tensor) -> Tensor:
            return 0.5 * z + x / (1 + t[:, None])

        def counted(state: dict, x: Tensor) -> dict:
            return {"z": 0.5 * state["z"] + x, "n": state["n"] + 1}

        def mixed(z: Tensor, x: Tensor) -> Tensor:
            return torch.cat((0.5 * z[:, :-1] + x, z[:, -1:] + 1), 1)

        def begin(x: Tensor) -> dict:
            return {"z": torch.zeros_like(x), "n": torch.zeros(len(x), dtype=torch.long)}

        models = {
            "the number of steps before it": from_function(
                timed, init=torch.zeros_like, readout=lambda z: z, timed=True
            ),
            "'n' in its state counts": from_function(counted, init=begin, readout=lambda state: state["z"]),
            "1 of the 7 numbers of its state counts": from_function(
                mixed, init=lambda x: torch.zeros(len(x), 7), readout=lambda z: z[:, :-1]
            ),
        }
        for words, model in models.items():
            notes = diagnose(model, inputs(), **QUICK).notes
            assert any("clock" in note and words in note for note in notes), notes
        assert not any("clock" in note for note in diagnose(CONTRACTION, inputs(), **QUICK).notes)


class TestRandomStarts:
    def test_they_are_noted_and_reproducible(self):
        two_basins = from_function(lambda z, x: torch.tanh(3 * z + 0.1 * x), init=torch.randn_like, readout=lambda z: z)
        one, two = (diagnose(two_basins, inputs(), **QUICK) for _ in range(2))
        assert any("initial state is random" in note for note in one.notes)
        assert one.data() | {"seconds": 0} == two.data() | {"seconds": 0}
        other = diagnose(two_basins, inputs(), **QUICK, rng=rng(5))
        assert other.alignment != one.alignment

    def test_a_fixed_start_is_not_noted(self):
        assert not any("initial state" in note for note in diagnose(CONTRACTION, inputs(), **QUICK).notes)


class TestAnswersFirst:
    def test_right_answers_come_before_an_unsettled_state(self):
        """Three numbers hold the answer and settle; three turn for ever."""
        turn = torch.tensor([[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]])

        def step(z: Tensor, x: Tensor) -> Tensor:
            return torch.cat((0.5 * z[:, :6] + x, z[:, 6:] @ turn.T), 1)

        model = from_function(
            step, init=lambda x: torch.cat((torch.zeros_like(x), x[:, :2]), 1), readout=lambda z: z[:, :6]
        )
        x = inputs()
        found = diagnose(model, x, x.argmax(1), trained_steps=10, **NO_LIMIT)
        assert found.verdict.behaviour == "is quasi-periodic"
        assert found.verdict.sentences[0].startswith("Every answer is right from step 1 on")
        assert found.findings[3].answer == "all"


def test_what_fits_into_the_time():
    wanted = Extent(64, 320)
    assert extent(wanted, 32, 64 * 320) == wanted
    for affordable in (10_000, 3_000, 500, 100, 10):
        examples, steps = extent(wanted, 20, affordable)
        assert examples * steps <= max(affordable, 2)
        assert 2 <= examples <= 64
        assert 1 <= steps <= 320
    assert extent(wanted, 20, 64 * 250) == Extent(64, 250)  # first fewer steps, at least ten times the trained ones
    assert extent(wanted, 20, 32 * 200) == Extent(32, 200)  # then fewer examples
    assert extent(wanted, 20, 16 * 50) == Extent(16, 50)  # then even fewer steps
