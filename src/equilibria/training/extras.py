"""What changes a training step: its loss or its cell. To add one: an `Extra`, and a line in EXTRAS."""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._prepare import precompute_weights
from equilibria.core.budget import Budget, require_share, require_whole
from equilibria.core.loop import Solver
from equilibria.gradients import Gradient
from equilibria.model import EquilibriumModel, Output
from equilibria.tasks import Batch, Task
from equilibria.training.starts import require_scale
from equilibria.training.team import Team


class Situation(NamedTuple):
    """One training step, as an extra sees it."""

    task: Task
    model: EquilibriumModel
    batch: Batch
    z0: Tensor  # (batch, *state) where the solve began
    output: Output
    solver: Solver
    gradient: Gradient
    budget: Budget
    rng: torch.Generator
    solves: list[Tensor]  # the steps of each solve of this training step, (batch,): what it cost
    team: Team = Team()  # the processes that share the batch

    def noise(self) -> Tensor:
        """A start of noise for every example."""
        return self.team.noise_like(self.z0, self.rng)

    def again(self, z0: Tensor, steps: int | None = None) -> Output:
        """Another solve of the same inputs."""
        budget = self.budget if steps is None else Budget(steps)
        output = self.model(self.batch.x, z0, solver=self.solver, gradient=self.gradient, budget=budget)
        self.solves.append(output.solution.steps)
        return output


class Extra:
    """A frozen dataclass that changes a training step."""

    def disturb(self, cell: nn.Module, steps: int, rng: torch.Generator, team: Team = Team()) -> nn.Module:
        """The cell that is iterated in this training step, `steps` times before anything else is done with it."""
        del steps, rng, team
        return cell

    def change(self, loss: Tensor, now: Situation) -> Tensor:
        """The new loss: ()."""
        del now
        return loss


@dataclass(frozen=True)
class AlignmentPenalty(Extra):
    """weight x the mean dot product between the states reached from `starts` noisy starts (paper, Section 5.2).

    It teaches path *dependence*, to see what is lost with it. With `normalise` the states are taken at unit
    length, so that growing them is no way to change the penalty; the paper's is the plain dot product.
    """

    weight: float = 1.0
    starts: int = 3
    normalise: bool = False

    def __post_init__(self) -> None:
        require_whole("starts", self.starts, least=2, why="alignment is between two states")

    def change(self, loss: Tensor, now: Situation) -> Tensor:
        states = [now.again(now.noise()).solution.z.flatten(1) for _ in range(self.starts)]
        if self.normalise:
            states = [torch.nn.functional.normalize(state, dim=1) for state in states]
        dots = torch.stack([(one * other).sum(1) for one, other in combinations(states, 2)])  # (pairs, batch)
        return loss + self.weight * dots.mean()


@dataclass(frozen=True)
class Progressive(Extra):
    """(1 - share) loss + share x the loss after some steps without gradient and some with (Bansal et al. 2022).

    Of m steps, n < m drawn uniformly are taken without recording, and then k of the m - n that are left.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        require_share("share", self.share, "(0, 1]", "leave the extra out for none")

    def change(self, loss: Tensor, now: Situation) -> Tensor:
        m = now.budget.steps
        n = int(torch.randint(0, m, (), generator=now.rng))
        k = int(torch.randint(1, m - n + 1, (), generator=now.rng))
        z = now.z0
        if n:
            with torch.no_grad():
                z = now.again(z, n).solution.z
        return (1 - self.share) * loss + self.share * now.task.loss(now.again(z, k).prediction, now.batch)


@dataclass(frozen=True)
class JacobianRegularisation(Extra):
    """weight x |J^T e|^2 / n, e standard normal, J the cell's Jacobian where the solve ended (Bai et al. 2021).

    Its expectation is the squared Frobenius norm of J per dimension of the state.
    """

    weight: float = 1.0
    probes: int = 1

    def __post_init__(self) -> None:
        require_whole("probes", self.probes, least=1, why="leave the extra out for none")

    def change(self, loss: Tensor, now: Situation) -> Tensor:
        z = now.output.solution.z.detach().requires_grad_()
        fz = precompute_weights(now.model.cell)(z, *now.model.inject(now.batch.x))
        total = torch.zeros((), device=z.device)
        for _ in range(self.probes):
            e = now.team.noise_like(z, now.rng)
            (product,) = torch.autograd.grad(fz, z, e, create_graph=True)
            total = total + product.square().mean()
        return loss + self.weight * total / self.probes


@dataclass(frozen=True)
class StateNoise(Extra):
    """Between steps the state gets Gaussian noise, of a strength drawn from 0..scale for each example.

    What a net keeps in a state must then survive disturbances, however long it has to be kept: values that decay on
    their way, or that must be exact, do not, so a net cannot rely on problems being small. After the last `calm`
    steps there is none, so that an answer can be expected to be right. For unrolled solves: where those are a
    pretraining, what comes after it is left alone.
    """

    scale: float = 0.5
    calm: int = 2

    def __post_init__(self) -> None:
        require_scale(self.scale)
        require_whole("calm", self.calm, least=0, why="it is a number of steps")

    def disturb(self, cell: nn.Module, steps: int, rng: torch.Generator, team: Team = Team()) -> nn.Module:
        return _Disturbed(cell, _Disturbance(self.scale, steps - self.calm, rng, team))


class _Disturbance:
    """Adds noise to so many states, the strength of each example being drawn with the first."""

    def __init__(self, scale: float, steps: int, rng: torch.Generator, team: Team) -> None:
        self._scale, self._left, self._rng, self._team = scale, steps, rng, team
        self._strength: Tensor | None = None

    def __call__(self, z: Tensor) -> Tensor:
        if self._left <= 0:
            return z
        self._left -= 1
        if self._strength is None:
            drawn = self._scale * self._team.share(torch.rand(self._team.size * len(z), generator=self._rng))
            self._strength = drawn.view(-1, *(1 for _ in z.shape[1:])).to(z)
        return z + self._strength * self._team.noise_like(z, self._rng)


class _Disturbed(nn.Module):
    """A cell whose results are disturbed. The disturbance is an object, so that stand-ins of the cell share it."""

    def __init__(self, cell: nn.Module, disturbance: _Disturbance) -> None:
        super().__init__()
        self.cell, self._disturbance = cell, disturbance

    def forward(self, z: Tensor, *injection: Tensor) -> Tensor:
        return self._disturbance(self.cell(z, *injection))


EXTRAS: dict[str, type[Extra]] = {
    "alignment_penalty": AlignmentPenalty,
    "progressive": Progressive,
    "jacobian_regularisation": JacobianRegularisation,
    "state_noise": StateNoise,
}
