"""Small models with the interfaces of Huginn, deep-thinking nets, ALBERT, IREM and others, written for these tests."""

import math
from types import SimpleNamespace
from typing import Any

import torch
from problems import rng
from torch import Tensor, nn

LENGTH, WIDTH, VOCABULARY = 6, 8, 9


def tokens(rows: int = 5, length: int = LENGTH) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=rng(2))


def seeded(build, seed: int = 0):
    """Build a module from this seed, in eval mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build().eval()


class Causal(nn.Module):
    """A block that mixes each position with those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, freqs_cis, block_idx, mask=None, past_key_values=None):
        before = torch.ones(x.shape[1], x.shape[1]).tril()
        mixed = (before / before.sum(1, keepdim=True)) @ self.mix(x)
        return self.norm(x + torch.tanh(mixed) + freqs_cis[:, : x.shape[1]])


class Huginn(nn.Module):
    """The methods of a Raven model: prelude, adapter, core block and coda, and a random initial state."""

    emb_scale = 1.0
    transformer: Any

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.config = SimpleNamespace(mean_recurrence=5, init_values={"std": 0.6}, test_time_noise=noise)
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(VOCABULARY, WIDTH),
                "prelude": nn.ModuleList([Causal()]),
                "adapter": nn.Linear(2 * WIDTH, WIDTH),
                "core_block": nn.ModuleList([Causal(), Causal()]),
                "coda": nn.ModuleList([Causal()]),
                "ln_f": nn.LayerNorm(WIDTH),
            }
        )
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.freqs_cis = nn.Buffer(0.1 * torch.randn(1, 64, WIDTH))

    def embed_inputs(self, input_ids, attention_mask=None, **_):
        x, index = self.transformer["wte"](input_ids), torch.tensor(-1)
        for block in self.transformer["prelude"]:
            index = index + 1
            x = block(x, self.freqs_cis, index)
        return x, index

    def initialize_state(self, input_embeds, scale=1.0):
        std = self.config.init_values["std"] * scale
        return nn.init.trunc_normal_(torch.randn_like(input_embeds), std=std, a=-3 * std, b=3 * std)

    def core_block_forward(self, x, input_embeds, freqs_cis, mask, past_key_values, block_idx, current_step):
        block_idx = block_idx.detach().clone()
        if self.config.test_time_noise > 0:
            share = self.config.test_time_noise / (current_step + 1)
            x = x * (1 - share) + torch.randn_like(x) * share
        x = self.transformer["adapter"](torch.cat([x, input_embeds], -1))
        for block in self.transformer["core_block"]:
            block_idx += 1
            x = block(x, freqs_cis, block_idx)
        return x, block_idx

    @torch.no_grad()
    def iterate_one_step(self, input_embeds, input_states, block_idx=torch.tensor(0), current_step=0, **_):
        x, block_idx = self.core_block_forward(
            input_states, input_embeds, self.freqs_cis, None, None, block_idx, current_step
        )
        return x, block_idx, current_step + 1

    def predict_from_latents(self, latents, **_):
        x = self.transformer["ln_f"](latents)
        for i, block in enumerate(self.transformer["coda"]):
            x = block(x, self.freqs_cis, torch.tensor(-1 - i))
        x = self.transformer["ln_f"](x)
        return SimpleNamespace(logits=self.lm_head(x).float(), latent_states=x)

    def forward(self, input_ids, num_steps):
        """Their forward: all steps, then the normalisation, the coda and the head."""
        u, index = self.embed_inputs(input_ids)
        x = self.initialize_state(u)
        for step in range(num_steps):
            x, index = self.core_block_forward(x, u, self.freqs_cis, None, None, index, step)
        return self.predict_from_latents(x)


class DeepThinking(nn.Module):
    """A 1D deep-thinking net: all outputs in eval mode, (output, thought) in training mode."""

    def __init__(self, *, recall: bool = True, norm: bool = False) -> None:
        super().__init__()
        self.recall = recall
        self.projection = nn.Sequential(nn.Conv1d(1, WIDTH, 3, padding=1, bias=False), nn.ReLU())
        layers = [nn.Conv1d(WIDTH + recall, WIDTH, 3, padding=1, bias=False), nn.Tanh()]
        self.recur_block = nn.Sequential(*layers, *([nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)] if norm else []))
        self.head = nn.Conv1d(WIDTH, 2, 3, padding=1, bias=False)

    def forward(self, x, iters_to_do, interim_thought=None, **_):
        thought = self.projection(x) if interim_thought is None else interim_thought
        outputs = torch.zeros(len(x), iters_to_do, 2, x.shape[2])
        out = None
        for i in range(iters_to_do):
            thought = self.recur_block(torch.cat([thought, x], 1) if self.recall else thought)
            out = self.head(thought)
            outputs[:, i] = out
        return (out, thought) if self.training else outputs


class LayerGroup(nn.Module):
    """The layer group of an ALBERT: attention over all positions that are not masked. Returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.dense, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        q, k, v = self.qkv(hidden_states).chunk(3, -1)
        scores = q @ k.mT / math.sqrt(WIDTH) + (0 if attention_mask is None else attention_mask)
        mixed = self.dropout(scores.softmax(-1)) @ v
        return (self.norm(hidden_states + self.dense(mixed)),)


class AlbertEncoder(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.config = config
        self.embedding_hidden_mapping_in = nn.Linear(4, WIDTH)
        self.albert_layer_groups = nn.ModuleList(LayerGroup() for _ in range(config.num_hidden_groups))

    def forward(self, hidden_states, attention_mask=None):
        hidden_states = self.embedding_hidden_mapping_in(hidden_states)
        for i in range(self.config.num_hidden_layers):
            group = int(i / (self.config.num_hidden_layers / self.config.num_hidden_groups))
            hidden_states = self.albert_layer_groups[group](hidden_states, attention_mask, [None])[0]
        return hidden_states


class AlbertForMaskedLM(nn.Module):
    """An ALBERT with a head for masked tokens: the layers share their weights."""

    def __init__(self, layers: int = 4, groups: int = 1) -> None:
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=layers, num_hidden_groups=groups)
        self.embeddings, self.encoder = nn.Embedding(VOCABULARY, 4), AlbertEncoder(self.config)
        self.predictions = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids, attention_mask=None):
        mask = None
        if attention_mask is not None:
            mask = (1.0 - attention_mask[:, None, :].float()) * torch.finfo(torch.float32).min
        hidden = self.encoder(self.embeddings(input_ids), attention_mask=mask)
        return SimpleNamespace(loss=None, logits=self.predictions(hidden))


class LoopedTransformer(nn.Module):
    """Applies a list of two layers in a loop, as looped GPTs do."""

    def __init__(self, loops: int = 3) -> None:
        super().__init__()
        self.loops = loops
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, dropout=0.1) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        h = self.embed(x)
        for _ in range(self.loops):
            for layer in self.layers:
                h = layer(h)
        return self.head(h)


class UniversalTransformer(nn.Module):
    """Adds an embedding of the step before each application of its block."""

    STEPS = 40

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.clock = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(self.STEPS, WIDTH)
        self.block, self.head = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x, steps):
        h = self.embed(x)
        for t in range(steps):
            h = self.block(h + self.clock.weight[t])
        return self.head(h)


class Energy(nn.Module):
    """An energy of an input and an answer, as in IREM: the answer descends it."""

    def __init__(self, levels: int = 1) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2 * WIDTH, 16), nn.Linear(16, 16)
        self.level = nn.Embedding(levels, 16)

    def forward(self, x, y, level=0):
        hidden = torch.tanh(self.first(torch.cat((x, y), -1)) + self.level.weight[level])
        return (self.second(hidden).square().sum(-1, keepdim=True)) + 0.5 * y.square().sum(-1, keepdim=True)

    def descend(self, x, y, steps, step_size, *, create_graph=False):
        """Their loop: gradients with respect to the answer, recorded in training."""
        for _ in range(steps):
            with torch.enable_grad():
                y = y if y.requires_grad else y.requires_grad_()
                (slope,) = torch.autograd.grad(self(x, y).sum(), y, create_graph=create_graph)
            y = y - step_size * slope
            y = y if create_graph else y.detach()
        return y
