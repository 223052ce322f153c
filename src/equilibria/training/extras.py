"""Changes to a training step: to its loss or its cell. To add one, write an `Extra` and add a line to EXTRAS."""

from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._prepare import precompute_weights
from equilibria.core.budget import Budget, require_share, require_whole
from equilibria.core.loop import Solver
from equilibria.gradients import Gradient
from equilibria.io.describe import LATER
from equilibria.model import EquilibriumModel, Output
from equilibria.plugins import extensible
from equilibria.tasks import Batch, Task
from equilibria.training.machine import Team
from equilibria.training.starts import require_scale


class StepContext(NamedTuple):
    """What an extra knows about the current training step."""

    task: Task
    model: EquilibriumModel
    batch: Batch
    z0: Tensor  # (batch, *state), the initial states
    output: Output
    solver: Solver
    gradient: Gradient
    budget: Budget
    rng: torch.Generator
    solves: list[Tensor]  # the steps of each solve of this training step: (batch,) each
    team: Team = Team()  # the processes that share the batch

    def noise(self) -> Tensor:
        """Draw an initial state of noise for every example."""
        return self.team.noise_like(self.z0, self.rng)

    def solve_again(self, z0: Tensor, steps: int | None = None) -> Output:
        """Solve the same inputs from other initial states."""
        budget = self.budget if steps is None else Budget(steps)
        output = self.model(self.batch.x, z0, solver=self.solver, gradient=self.gradient, budget=budget)
        self.solves.append(output.solution.steps)
        return output


class Extra:
    """A frozen dataclass that changes a training step; override either method."""

    def wrap_cell(self, cell: nn.Module, steps: int, rng: torch.Generator, team: Team = Team()) -> nn.Module:
        """Return the cell to iterate in this training step; its first `steps` evaluations are those of the solve."""
        del steps, rng, team
        return cell

    def modify_loss(self, loss: Tensor, context: StepContext) -> Tensor:
        """Return the new loss: ()."""
        del context
        return loss


@dataclass(frozen=True)
class AlignmentPenalty(Extra):
    """weight x the mean dot product between the states reached from `starts` noisy starts (paper, Section 5.2).

    It encourages path *dependence*, as a control. With `normalise` the states have unit length, so that scaling them
    does not change the penalty; the paper uses the plain dot product.
    """

    weight: float = 1.0
    starts: int = 3
    normalise: bool = False

    def __post_init__(self) -> None:
        require_whole("starts", self.starts, least=2, why="alignment compares two states")

    def modify_loss(self, loss: Tensor, context: StepContext) -> Tensor:
        states = [context.solve_again(context.noise()).solution.z.flatten(1) for _ in range(self.starts)]
        if self.normalise:
            states = [torch.nn.functional.normalize(state, dim=1) for state in states]
        dots = torch.stack([(one * other).sum(1) for one, other in combinations(states, 2)])  # (pairs, batch)
        return loss + self.weight * dots.mean()


@dataclass(frozen=True)
class Progressive(Extra):
    """(1 - share) x loss + share x the loss after n steps without and k with gradient (Bansal et al. 2022).

    Of a budget of m steps, n < m and then k <= m - n are drawn uniformly.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        require_share("share", self.share, "(0, 1]", "to disable it, remove the extra")

    def modify_loss(self, loss: Tensor, context: StepContext) -> Tensor:
        m = context.budget.steps
        n = int(torch.randint(0, m, (), generator=context.rng))
        k = int(torch.randint(1, m - n + 1, (), generator=context.rng))
        z = context.z0
        if n:
            with torch.no_grad():
                z = context.solve_again(z, n).solution.z
        progressive = context.task.loss(context.solve_again(z, k).prediction, context.batch)
        return (1 - self.share) * loss + self.share * progressive


@dataclass(frozen=True)
class ScaledLoss(Extra):
    """factor x loss, for tasks whose loss is so small that Adam's epsilon or a weight decay outweighs it."""

    factor: float = 100.0

    def __post_init__(self) -> None:
        require_scale(self.factor, "factor", "the loss")

    def modify_loss(self, loss: Tensor, context: StepContext) -> Tensor:
        del context
        return self.factor * loss


@dataclass(frozen=True)
class JacobianRegularisation(Extra):
    """weight x |J^T e|^2 / n, e standard normal, J the cell's Jacobian at the last state (Bai et al. 2021).

    Its expectation is the squared Frobenius norm of J per dimension of the state.
    """

    weight: float = 1.0
    probes: int = 1

    def __post_init__(self) -> None:
        require_whole("probes", self.probes, least=1, why="to disable it, remove the extra")

    def modify_loss(self, loss: Tensor, context: StepContext) -> Tensor:
        z = context.output.solution.z.detach().requires_grad_()
        fz = precompute_weights(context.model.cell)(z, *context.model.inject(context.batch.x))
        total = torch.zeros((), device=z.device)
        for _ in range(self.probes):
            e = context.team.noise_like(z, context.rng)
            (product,) = torch.autograd.grad(fz, z, e, create_graph=True)
            total = total + product.square().mean()
        return loss + self.weight * total / self.probes


@dataclass(frozen=True)
class StateNoise(Extra):
    """Add Gaussian noise to the state between steps, of a strength drawn from 0..scale for each example.

    What a net keeps in its state must then survive noise for any number of steps, so it cannot rely on problems being
    small. The last `calm` steps add no noise, so that the answer can be right. Each example gets noise with
    probability `share`: a net that hardly ever trains without noise may come to depend on it. It applies to unrolled
    solves only; if only the pretraining unrolls, the rest of the training has no noise.
    """

    scale: float = 0.5
    calm: int = 2
    share: float = field(default=1.0, metadata=LATER)

    def __post_init__(self) -> None:
        require_scale(self.scale)
        require_whole("calm", self.calm, least=0, why="it is a number of steps")
        require_share("share", self.share, "(0, 1]", "to disable it, remove the extra")

    def wrap_cell(self, cell: nn.Module, steps: int, rng: torch.Generator, team: Team = Team()) -> nn.Module:
        return _NoisyCell(cell, _Noise(self, steps - self.calm, rng, team))


class _Noise:
    """Adds noise to the next `steps` states; the strength of each example is drawn once."""

    def __init__(self, extra: StateNoise, steps: int, rng: torch.Generator, team: Team) -> None:
        self._extra, self._left, self._rng, self._team = extra, steps, rng, team
        self._strength: Tensor | None = None

    def __call__(self, z: Tensor) -> Tensor:
        if self._left <= 0:
            return z
        self._left -= 1
        if self._strength is None:
            # One uniform number decides both: below `share` it sets the strength, above it there is no noise.
            drawn = self._team.share(torch.rand(self._team.size * len(z), generator=self._rng)) / self._extra.share
            strength = self._extra.scale * torch.where(drawn < 1, drawn, 0.0)  # (batch,)
            self._strength = strength.view(-1, *(1 for _ in z.shape[1:])).to(z)
        return z + self._strength * self._team.noise_like(z, self._rng)


class _NoisyCell(nn.Module):
    """A cell with noise on its output. The noise is an object that copies of the cell share."""

    def __init__(self, cell: nn.Module, noise: _Noise) -> None:
        super().__init__()
        self.cell, self._noise = cell, noise

    def forward(self, z: Tensor, *injection: Tensor) -> Tensor:
        return self._noise(self.cell(z, *injection))


EXTRAS: dict[str, type[Extra]] = {
    "alignment_penalty": AlignmentPenalty,
    "progressive": Progressive,
    "scaled_loss": ScaledLoss,
    "jacobian_regularisation": JacobianRegularisation,
    "state_noise": StateNoise,
}
extensible("extras", Extra, EXTRAS)
