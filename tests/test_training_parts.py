"""Starts, depths, extras and the rate: each does what its formula says."""

import math
from dataclasses import replace

import pytest
import torch
from problems import rng
from torch import nn

from equilibria import Backprop, Budget, EquilibriumModel, Implicit, Picard
from equilibria.nets import ConvNet, DeepThinking
from equilibria.tasks import Batch, PrefixSum
from equilibria.training import (
    AlignmentPenalty,
    Fixed,
    JacobianRegularisation,
    LogNormalPoisson,
    Mixed,
    Normal,
    Optim,
    Progressive,
    Projected,
    Recipe,
    ScaledLoss,
    StateNoise,
    Trainer,
    Uniform,
    Zeros,
)
from equilibria.training.extras import StepContext
from equilibria.training.trainer import learning_rate


class TestStarts:
    usual = torch.full((400, 3, 5), 7.0)

    def test_zeros_and_projected_leave_the_usual_state(self):
        assert Zeros().draw(self.usual, rng()) is self.usual
        assert Projected().draw(self.usual, rng()) is self.usual

    def test_normal_is_noise_everywhere(self):
        z = Normal(scale=3.0).draw(self.usual, rng())
        assert z.std() == pytest.approx(3, rel=0.05)
        assert z.mean().abs() < 0.1

    @pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
    def test_mixed_decides_for_whole_examples(self, share):
        z = Mixed(share).draw(self.usual, rng()).flatten(1)
        kept = z == 7.0
        assert torch.equal(kept.all(1), kept.any(1)), "an example is noise as a whole or not at all"
        assert (~kept.all(1)).float().mean() == pytest.approx(share, abs=0.08)
        assert z[~kept.all(1)].std() == pytest.approx(1, rel=0.1)

    def test_the_generator_decides(self):
        for start in (Normal(), Mixed()):
            assert torch.equal(start.draw(self.usual, rng(3)), start.draw(self.usual, rng(3)))
            assert not torch.equal(start.draw(self.usual, rng(3)), start.draw(self.usual, rng(4)))

    def test_projected_makes_the_first_state_of_the_model_its_encoded_input(self):
        model = Recipe(net=ConvNet(8), start=Projected()).build()
        x = PrefixSum().sample(2, 8, rng()).x
        assert torch.equal(model.init(*model.inject(x)), model.encoder(x))
        net = DeepThinking(8)
        own, usual = Recipe(net=net, start=Projected(), seed=3).build(), net.build(PrefixSum(), seed=3)
        torch.testing.assert_close(own.init(*own.inject(x)), usual.init(*usual.inject(x)))  # it has its own projection


class TestDepths:
    def draws(self, depth, n=4000):
        generator = rng()
        return torch.tensor([depth.draw(generator) for _ in range(n)]).float()

    def test_fixed(self):
        assert set(self.draws(Fixed(5), 10).tolist()) == {5}

    def test_uniform_reaches_both_ends_and_is_even(self):
        draws = self.draws(Uniform(3, 6))
        shares = torch.bincount(draws.long(), minlength=7)[3:] / len(draws)
        assert set(draws.tolist()) == {3, 4, 5, 6}
        assert (shares - 0.25).abs().max() < 0.03

    def test_log_normal_poisson_has_its_moments(self):
        mean, sigma = 10.0, 0.5
        draws = self.draws(LogNormalPoisson(mean, sigma, most=1000))
        assert draws.min() >= 1
        assert draws.mean() == pytest.approx(mean + 1, rel=0.05)
        variance = mean + mean**2 * (math.exp(sigma**2) - 1)  # of a mixture of Poissons: E rate + Var rate
        assert draws.var() == pytest.approx(variance, rel=0.2)
        assert self.draws(LogNormalPoisson(mean, sigma, most=12)).max() == 12

    @pytest.mark.parametrize(
        "make", [lambda: Fixed(0), lambda: Uniform(0, 3), lambda: Uniform(5, 4), lambda: LogNormalPoisson(mean=0)]
    )
    def test_impossible_depths_are_refused(self, make):
        with pytest.raises(ValueError, match="must be"):
            make()


class Linear(nn.Module):
    """z' = W z + u."""

    def __init__(self, W):
        super().__init__()
        self.W = nn.Parameter(W)

    def forward(self, z, u):
        return z @ self.W.T + u


class Regression(PrefixSum):
    """Any prediction against any target."""

    def loss(self, prediction, batch):
        return (prediction - batch.y).square().mean()


class TestExtras:
    def situation(self, W, steps=60):
        model = EquilibriumModel(nn.Identity(), Linear(W), nn.Identity())
        x = torch.randn(5, len(W), generator=rng(1))
        z0 = torch.zeros_like(x)
        output = model(x, z0, budget=Budget(steps))
        batch = Batch(x, torch.zeros_like(x), 1)
        return StepContext(Regression(), model, batch, z0, output, Picard(), Backprop(), Budget(steps), rng(2), [])

    def test_the_penalty_of_a_contraction_is_the_squared_length_of_its_fixed_point(self):
        W = 0.3 * torch.linalg.qr(torch.randn(4, 4, generator=rng()))[0]
        now = self.situation(W)
        squared = torch.linalg.solve(torch.eye(4) - W, now.batch.x.T).square().sum(0).mean()
        plain = AlignmentPenalty(weight=2.0).modify_loss(torch.tensor(1.0), now)
        torch.testing.assert_close(plain, 1 + 2 * squared, rtol=1e-4, atol=0)
        normalised = AlignmentPenalty(weight=2.0, normalise=True).modify_loss(torch.tensor(1.0), now)
        assert normalised.item() == pytest.approx(3, abs=1e-4)

    def test_the_penalty_of_a_map_that_forgets_nothing_is_that_of_its_noise(self):
        now = self.situation(torch.eye(400), steps=1)  # z0 + u: dot products of independent noise, plus |u|^2
        squared = now.batch.x.square().sum(1).mean()
        penalty = AlignmentPenalty().modify_loss(torch.tensor(0.0), now)
        assert penalty.item() == pytest.approx(squared.item(), rel=0.2)

    def test_a_scaled_loss_is_a_multiple_and_a_factor_must_be_positive(self):
        now = self.situation(torch.zeros(2, 2))
        assert ScaledLoss(100.0).modify_loss(torch.tensor(0.014), now).item() == pytest.approx(1.4)
        with pytest.raises(ValueError, match="factor must be > 0 and finite, got 0; it multiplies the loss"):
            ScaledLoss(0)

    def test_jacobian_regularisation_estimates_the_frobenius_norm(self):
        W = torch.randn(6, 6, generator=rng())
        now = self.situation(0.01 * W, steps=2)
        now.model.cell.W.data = W
        value = JacobianRegularisation(weight=3.0, probes=2000).modify_loss(torch.tensor(0.0), now)
        assert value.item() == pytest.approx(3 * W.square().sum().item() / 6, rel=0.05)
        value.backward()
        torch.testing.assert_close(now.model.cell.W.grad, 3 * 2 * W / 6, rtol=0.2, atol=0.3)

    def test_progressive_is_the_loss_of_a_random_stretch(self):
        """With W = 1 and u = 1 from zero, n + k steps give n + k, so the loss tells the lengths drawn."""
        values, gradients = [], []
        for seed in range(200):
            model = EquilibriumModel(nn.Identity(), Linear(torch.ones(1, 1)), nn.Identity())
            x = torch.ones(1, 1)
            output = model(x, torch.zeros(1, 1), budget=Budget(4))
            parts = (Regression(), model, Batch(x, torch.zeros(1, 1), 1), torch.zeros(1, 1), output)
            now = StepContext(*parts, Picard(), Backprop(), Budget(4), rng(seed), [])
            loss = Progressive(share=1.0).modify_loss(torch.tensor(99.0), now)
            loss.backward()
            values.append(round(math.sqrt(loss.item())))
            gradients.append(model.cell.W.grad.item())
        assert set(values) == {1, 2, 3, 4}, "n + k lies in 1..m"
        # Of n + k = 4 steps the gradient is 2 * 4 * (sum of the states inside the recorded stretch): n >= 0 shows.
        of_four = {round(gradient / 8) for value, gradient in zip(values, gradients, strict=True) if value == 4}
        assert of_four == {3, 5, 6}, "the steps before the stretch carry no gradient"

    def test_noise_is_added_between_steps_with_a_strength_per_example(self):
        """z' = z adds up the noise of its steps; the strengths are even in 0..scale and stay the same in a solve."""
        still, strengths = Linear(torch.eye(2000)), []
        for seed in range(40):
            model = EquilibriumModel(
                nn.Identity(), StateNoise(0.6, calm=3).wrap_cell(still, 12, rng(seed)), nn.Identity()
            )
            z = model.equilibrium(torch.zeros(10, 2000), budget=Budget(12)).z
            strengths.append(z.std(1) / math.sqrt(9))
        strengths = torch.cat(strengths)
        assert strengths.max() == pytest.approx(0.6, rel=0.1)
        assert strengths.mean() == pytest.approx(0.3, rel=0.1)
        assert strengths.min() < 0.05

    def test_a_share_of_the_examples_gets_noise(self):
        noisy = StateNoise(0.6, calm=0, share=0.25).wrap_cell(nn.Identity(), 1, rng(0))(torch.zeros(400, 2000))
        strengths = noisy.std(1)
        assert (strengths > 0).float().mean() == pytest.approx(0.25, abs=0.08)
        assert strengths[strengths > 0].mean() == pytest.approx(0.3, rel=0.1)
        every = StateNoise(0.6, calm=0).wrap_cell(nn.Identity(), 1, rng(0))(torch.zeros(400, 2000))
        assert (every.std(1) > 0).all()
        with pytest.raises(ValueError, match="share"):
            StateNoise(share=0.0)

    def test_noise_is_there_in_training_and_nowhere_else(self):
        recipe = Recipe(net=ConvNet(8), depth=Fixed(4), optim=Optim(steps=5, batch=2), extras=(StateNoise(),))
        noisy, plain = Trainer(recipe), Trainer(replace(recipe, extras=()))
        cell, names = noisy.net.cell, list(noisy.net.state_dict())
        assert noisy.step().loss != plain.step().loss
        calm = Trainer(replace(recipe, extras=(StateNoise(calm=4),)))
        assert calm.step().loss == Trainer(replace(recipe, extras=())).step().loss
        assert noisy.net.cell is cell
        assert list(noisy.net.state_dict()) == names
        with pytest.raises(ValueError, match="state_noise needs unrolled solves"):
            replace(recipe, gradient=Implicit())

    def test_progressive_mixes(self):
        now = self.situation(0.1 * torch.eye(3))
        alone = Progressive(share=1.0).modify_loss(torch.tensor(5.0), now._replace(rng=rng(9)))
        mixed = Progressive(share=0.25).modify_loss(torch.tensor(5.0), now._replace(rng=rng(9)))
        torch.testing.assert_close(mixed, 0.75 * 5 + 0.25 * alone)


class TestRate:
    def test_warm_up_rises_in_a_line(self):
        optim = Optim(steps=100, lr=1.0, warmup=10)
        assert [learning_rate(optim, step) for step in (0, 4, 9, 50)] == [0.1, 0.5, 1, 1]

    def test_steps_halve_at_one_half_and_three_quarters(self):
        optim = Optim(steps=100, lr=1.0, schedule="steps")
        assert [learning_rate(optim, step) for step in (0, 49, 50, 74, 75, 99)] == [1, 1, 0.5, 0.5, 0.25, 0.25]

    def test_cosine_goes_to_nothing(self):
        optim = Optim(steps=100, lr=2.0, schedule="cosine")
        rates = [learning_rate(optim, step) for step in range(100)]
        assert rates == sorted(rates, reverse=True)
        assert rates[0] == 2
        assert rates[50] == pytest.approx(1)
        assert rates[-1] < 1e-3
