"""Small recursive reasoning models with the interfaces of TRM, HRM and EqR, written for these tests."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from problems import rng
from torch import Tensor, nn

IGNORED = -100
LENGTH, WIDTH, VOCABULARY, PUZZLES = 5, 8, 7, 4


@dataclass
class InnerCarry:
    z_H: Tensor  # noqa: N815
    z_L: Tensor  # noqa: N815


@dataclass
class Carry:
    inner_carry: InnerCarry
    steps: Tensor
    halted: Tensor
    current_data: dict[str, Tensor]


def settings(**changes):
    usual = {
        "H_cycles": 2,
        "L_cycles": 1,
        "halt_max_steps": 4,
        "puzzle_emb_ndim": WIDTH,
        "batch_size": 6,
        "no_ACT_continue": True,
        "noise_scale": 0.01,
        "lambda_": 0.9,
        "gain": 0.5,
    }
    return SimpleNamespace(**usual | changes)


class SparseEmbedding(nn.Module):
    """Like theirs: in training mode it fills a buffer with as many rows as a batch has."""

    def __init__(self, config):
        super().__init__()
        self.weights = nn.Buffer(torch.randn(PUZZLES, config.puzzle_emb_ndim, generator=rng(9)))
        self.local_weights = nn.Buffer(torch.zeros(config.batch_size, config.puzzle_emb_ndim), persistent=False)

    def forward(self, identifiers):
        if not self.training:
            return self.weights[identifiers]
        with torch.no_grad():
            self.local_weights.copy_(self.weights[identifiers])
        return self.local_weights


class Level(nn.Module):
    """A reasoning module: adds what is injected, mixes positions and channels, and normalises."""

    def __init__(self, config, *, noisy=False):
        super().__init__()
        self.tokens, self.channels = nn.Linear(LENGTH + 1, LENGTH + 1), nn.Linear(WIDTH, WIDTH)
        self.gain, self.noisy = config.gain, noisy
        self.noise_scale, self.lambda_ = config.noise_scale, config.lambda_

    def forward(self, hidden_states, input_injection):
        before = hidden_states
        z = hidden_states + input_injection
        z = z + self.gain * self.tokens(z.mT).mT
        z = z + self.gain * torch.tanh(self.channels(z))
        z = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + 1e-5)
        if not self.noisy:
            return z
        noise = torch.randn_like(before) * self.noise_scale
        return (1 - self.lambda_) * before + self.lambda_ * z + noise


class Inner(nn.Module):
    """What the three families have in common."""

    def __init__(self, config, *, noisy=False):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.lm_head, self.q_head = nn.Linear(WIDTH, VOCABULARY, bias=False), nn.Linear(WIDTH, 2)
        self.puzzle_emb_len = 1
        self.puzzle_emb = SparseEmbedding(config)
        self.L_level = Level(config, noisy=noisy)
        self.H_init, self.L_init = (nn.Buffer(torch.randn(WIDTH, generator=rng(seed))) for seed in (5, 6))

    def _input_embeddings(self, tokens, identifiers):
        prefix = self.puzzle_emb(identifiers).view(-1, 1, WIDTH)
        return math.sqrt(WIDTH) * torch.cat((prefix, self.embed_tokens(tokens.to(torch.int32))), 1)

    def empty_carry(self, batch_size):
        return InnerCarry(*(torch.full((batch_size, LENGTH + 1, WIDTH), math.nan) for _ in range(2)))

    def reset_carry(self, reset_flag, carry):
        flag = reset_flag.view(-1, 1, 1)
        return InnerCarry(torch.where(flag, self.H_init, carry.z_H), torch.where(flag, self.L_init, carry.z_L))

    def heads(self, z_H):
        q = self.q_head(z_H[:, 0]).float()
        return self.lm_head(z_H)[:, self.puzzle_emb_len :], q


class InnerTRM(Inner):
    def cycle(self, z_H, z_L, u):
        for _ in range(self.config.L_cycles):
            z_L = self.L_level(z_L, z_H + u)
        return self.L_level(z_H, z_L), z_L

    def forward(self, carry, batch):
        u = self._input_embeddings(batch["inputs"], batch["puzzle_identifiers"])
        z_H, z_L = carry.z_H, carry.z_L
        with torch.no_grad():
            for _ in range(self.config.H_cycles - 1):
                z_H, z_L = self.cycle(z_H, z_L, u)
        z_H, z_L = self.cycle(z_H, z_L, u)
        logits, q = self.heads(z_H)
        return InnerCarry(z_H.detach(), z_L.detach()), logits, (q[..., 0], q[..., 1])


class InnerHRM(Inner):
    def __init__(self, config):
        super().__init__(config)
        self.H_level = Level(config)

    def forward(self, carry, batch):
        u = self._input_embeddings(batch["inputs"], batch["puzzle_identifiers"])
        H, L = self.config.H_cycles, self.config.L_cycles
        with torch.no_grad():
            z_H, z_L = carry.z_H, carry.z_L
            for i in range(H):
                for j in range(L):
                    if (i, j) != (H - 1, L - 1):
                        z_L = self.L_level(z_L, z_H + u)
                if i < H - 1:
                    z_H = self.H_level(z_H, z_L)
        assert not z_H.requires_grad
        assert not z_L.requires_grad
        z_L = self.L_level(z_L, z_H + u)
        z_H = self.H_level(z_H, z_L)
        logits, q = self.heads(z_H)
        return InnerCarry(z_H.detach(), z_L.detach()), logits, (q[..., 0], q[..., 1])


class InnerEqR(InnerTRM):
    def __init__(self, config):
        super().__init__(config, noisy=True)

    def reset_carry(self, reset_flag, carry, *, reset_indices=None):
        rows = reset_flag.nonzero().flatten() if reset_indices is None else reset_indices
        for state in (carry.z_H, carry.z_L):
            state[rows] = torch.nn.init.trunc_normal_(torch.empty(len(rows), *state.shape[1:]))
        return carry

    def forward(self, carry, batch):
        after, logits, (halt, _) = super().forward(carry, batch)
        return after, logits, halt


class Recursive(nn.Module):
    """The outer model: it resets rows that have halted, and always takes the maximum number of steps in eval mode."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def initial_carry(self, batch):
        rows = len(batch["inputs"])
        data = {name: torch.empty_like(value) for name, value in batch.items()}
        return Carry(self.inner.empty_carry(rows), torch.zeros(rows, dtype=torch.int32), torch.ones(rows).bool(), data)

    def forward(self, carry, batch):
        inner_carry = self.inner.reset_carry(carry.halted, carry.inner_carry)
        steps = torch.where(carry.halted, 0, carry.steps)
        data = {
            name: torch.where(carry.halted.view(-1, *[1] * (value.ndim - 1)), batch[name], value)
            for name, value in carry.current_data.items()
        }
        inner_carry, logits, q = self.inner(inner_carry, data)
        steps = steps + 1
        q_halt = q if isinstance(q, Tensor) else q[0]
        outputs = {"logits": logits, "q_halt_logits": q_halt}
        if isinstance(q, tuple):
            outputs["q_continue_logits"] = q[1]
        return Carry(inner_carry, steps, steps >= self.config.halt_max_steps, data), outputs


class LossHead(nn.Module):
    """What their training scripts wrap around a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model


def made(kind, **changes):
    """A small model of a family: "trm", "hrm" or "eqr"."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        inner = {"trm": InnerTRM, "hrm": InnerHRM, "eqr": InnerEqR}[kind](settings(**changes))
    return Recursive(inner).eval()


def puzzles(rows=6, *, labels=True):
    """A batch as their loaders yield it: tokens, identifiers, and labels of which some do not count."""
    tokens = torch.randint(VOCABULARY, (rows, LENGTH), generator=rng(2))
    batch = {"inputs": tokens, "puzzle_identifiers": torch.arange(rows) % PUZZLES}
    if labels:
        batch["labels"] = tokens.flip(1).masked_fill(tokens < 2, IGNORED)
        batch["labels"][:, 0] = tokens[:, -1]  # every row has a label
    return batch
