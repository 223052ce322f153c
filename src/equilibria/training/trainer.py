"""One training step at a time; `state_dict()` holds everything that later steps depend on."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from equilibria.core.budget import Budget
from equilibria.gradients import Backprop
from equilibria.model import EquilibriumModel
from equilibria.solvers import Picard
from equilibria.tasks import Batch
from equilibria.training.events import Stepped
from equilibria.training.extras import StepContext
from equilibria.training.machine import Machine, Team
from equilibria.training.recipe import Optim, Recipe

PATIENCE = 20  # consecutive steps without a finite loss before giving up


class TrainingDiverged(RuntimeError):
    """The loss was not finite in many consecutive steps."""


def learning_rate(optim: Optim, step: int) -> float:
    """Return the learning rate after `step` steps."""
    warm = min(1.0, (step + 1) / optim.warmup) if optim.warmup else 1.0
    done = step / optim.steps
    if optim.schedule == "cosine":
        return optim.lr * warm * 0.5 * (1 + math.cos(math.pi * done))
    if optim.schedule == "steps":
        return optim.lr * warm * optim.drop ** sum(done >= drop for drop in optim.drops)
    return optim.lr * warm


def scheduled_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate after `step` steps, of which the first may be pretraining."""
    first, optim = recipe.pretraining, recipe.optim
    if first is None or first.lr is None:
        return learning_rate(optim, step)
    if step < first.steps:
        return learning_rate(replace(optim, lr=first.lr, steps=first.steps), step)
    return learning_rate(replace(optim, steps=optim.steps - first.steps), step - first.steps)


class Trainer:
    """A net in training: call `step()` until `done`, then `model()`.

    A trainer that loads the `state_dict()` of another continues bit-identically.
    """

    def __init__(self, recipe: Recipe, team: Team = Team(), machine: Machine = Machine()) -> None:
        team.check(recipe.optim.batch)
        self.recipe, self.team, self.machine = recipe, team, machine
        model = recipe.build()
        self.averaged = copy.deepcopy(model).to(machine.torch_device) if recipe.optim.averaging else model
        self.net = machine.prepare(model)
        self._best: dict[str, Tensor] = {}
        self._best_score = -math.inf
        self.step_count = 0
        self._bad = 0
        optim = recipe.optim
        self._optimizer = torch.optim.AdamW(
            self.net.parameters(), lr=optim.lr, weight_decay=optim.weight_decay, fused=True
        )
        self._rng = torch.Generator().manual_seed(recipe.seed)
        self._pool = self._draw_pool()

    @property
    def done(self) -> bool:
        """Whether all steps of the recipe are taken."""
        return self.step_count >= self.recipe.optim.steps

    def step(self) -> Stepped:
        """Draw a batch, initial states and a depth; solve; update the weights."""
        recipe, net = self.recipe, self.net
        for group in self._optimizer.param_groups:
            group["lr"] = scheduled_rate(recipe, self.step_count)
        whole = self._batch().to(self.machine.torch_device)
        pretraining = recipe.pretraining if recipe.pretraining and self.step_count < recipe.pretraining.steps else None
        solver, gradient = (Picard(), Backprop(pretraining.last)) if pretraining else (recipe.solver, recipe.gradient)
        depth = (pretraining or recipe).depth.draw(self._rng)
        budget = Budget(depth, tol=recipe.tol if gradient.stops_early else 0.0)
        z0 = self.team.share(recipe.start.draw(net.init(*net.inject(whole.x)), self._rng))
        batch = whole._replace(x=self.team.share(whole.x), y=self.team.share(whole.y))
        wrapped = self._wrapped_cell(depth) if pretraining or recipe.unrolled else nullcontext()
        with self.machine.autocast(), wrapped:
            output = net(batch.x, z0, solver=solver, gradient=gradient, budget=budget)
            loss = recipe.task.loss(output.prediction, batch)
            solves = [output.solution.steps]
            context = StepContext(
                recipe.task, net, batch, z0, output, solver, gradient, budget, self._rng, solves, self.team
            )
            for extra in recipe.extras:
                loss = extra.modify_loss(loss, context)
        self._optimizer.zero_grad()
        loss.backward()
        self.team.average_gradients(net)
        loss = self.team.mean(loss)
        norm = clip_grad_norm_(net.parameters(), recipe.optim.clip or math.inf)
        self._update(loss, norm)
        self.step_count += 1
        rate, spent = self._optimizer.param_groups[0]["lr"], self.team.size * sum(int(steps.sum()) for steps in solves)
        return Stepped(self.step_count, loss.item(), rate, depth, norm.item(), spent)

    @contextmanager
    def _wrapped_cell(self, steps: int) -> Iterator[None]:
        """Replace the net's cell by the cell that the extras return."""
        cell = wrapped = self.net.cell
        for extra in self.recipe.extras:
            wrapped = extra.wrap_cell(wrapped, steps, self._rng, self.team)
        self.net.cell = wrapped
        try:
            yield
        finally:
            self.net.cell = cell

    def keep_if_best(self, score: float) -> None:
        """Keep the current weights unless earlier ones had a better score, or the recipe selects the last ones."""
        first = self.recipe.pretraining
        if first and self.step_count <= first.steps:
            return
        if self.recipe.select != "last" and score >= self._best_score:
            self._best_score = score
            self._best = {name: value.clone() for name, value in self.averaged.state_dict().items()}

    def model(self) -> EquilibriumModel:
        """Return a copy of the net that the recipe specifies: averaged or not, the last or the best."""
        model = copy.deepcopy(self.averaged)
        if self._best:
            model.load_state_dict(self._best)
        return model.eval()

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that later steps depend on."""
        state = {f"model.{name}": value for name, value in self.net.state_dict().items()}
        if self.averaged is not self.net:
            state |= {f"averaged.{name}": value for name, value in self.averaged.state_dict().items()}
        state |= {f"best.{name}": value for name, value in self._best.items()}
        for i, parameter in enumerate(self.net.parameters()):
            state |= {f"optimizer.{i}.{name}": value for name, value in self._optimizer.state[parameter].items()}
        counts = torch.tensor([self.step_count, self._bad], dtype=torch.int64)
        score = torch.tensor(self._best_score, dtype=torch.float64)
        return state | {"counts": counts, "best_score": score, "rng": self._rng.get_state()}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the result of `state_dict()`."""

        def under(prefix: str) -> dict[str, Tensor]:
            return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}

        self.net.load_state_dict(under("model."))
        if self.averaged is not self.net:
            self.averaged.load_state_dict(under("averaged."))
        self._best = under("best.")
        for i, parameter in enumerate(self.net.parameters()):
            state = under(f"optimizer.{i}.")
            # The fused optimiser needs its state in the memory layout of the parameter.
            self._optimizer.state[parameter] = {
                name: torch.empty_like(parameter if value.ndim else value, device=parameter.device).copy_(value)
                for name, value in state.items()
            }
        self.step_count, self._bad = tensors["counts"].tolist()
        self._best_score = tensors["best_score"].item()
        self._rng.set_state(tensors["rng"])

    def _update(self, loss: Tensor, norm: Tensor) -> None:
        """Take one step of the optimiser; skip it if the loss or the gradient is not finite."""
        if not (loss.isfinite() and norm.isfinite()):
            self._bad += 1
            if self._bad >= PATIENCE:
                raise TrainingDiverged(
                    f"no finite loss in {PATIENCE} steps up to step {self.step_count + 1}; lower optim.lr or the "
                    "depth, or give the net a norm"
                )
            return
        self._bad = 0
        self._optimizer.step()
        if self.averaged is not self.net:
            # The decay starts low, or the untrained weights would dominate the average for a long time.
            decay = min(self.recipe.optim.averaging, (1 + self.step_count) / (10 + self.step_count))
            with torch.no_grad():
                for mean, new in zip(self.averaged.parameters(), self.net.parameters(), strict=True):
                    mean.lerp_(new, 1 - decay)

    def _batch(self) -> Batch:
        size, task = self.recipe.optim.batch, self.recipe.task
        choices = task.train_difficulties
        choice = int(torch.randint(0, len(choices), (), generator=self._rng)) if len(choices) > 1 else 0
        if not self._pool:
            return task.sample(size, choices[choice], self._rng)
        pool = self._pool[choice]
        rows = torch.randint(0, len(pool.x), (size,), generator=self._rng)
        return Batch(pool.x[rows], pool.y[rows], pool.difficulty)

    def _draw_pool(self) -> list[Batch]:
        """Draw the fixed instances, evenly over the difficulties. A resumed run draws the same instances."""
        difficulties = self.recipe.task.train_difficulties
        if not self.recipe.pool:
            return []
        each = math.ceil(self.recipe.pool / len(difficulties))
        return [self.recipe.task.sample(each, difficulty, self._rng) for difficulty in difficulties]
