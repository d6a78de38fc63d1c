"""The Llama 3 decoder (arXiv 2407.21783): RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Plain PyTorch that knows nothing of parallelism; `parallel.py` applies that from outside. Parameters have the names,
shapes and rotary convention of Hugging Face's `LlamaForCausalLM`, less its leading `model.`, so weights can be
exchanged by renaming.
"""

import hashlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from training.presets import Shape


def rotary_cache(shape: Shape, sequence_length: int, device: torch.device | str = "cpu") -> Tensor:
    """The cosines and sines of all positions: fp32, [2, sequence_length, head_width / 2] (arXiv 2104.09864).

    Real-valued and an argument of the model, not a buffer in it: complex numbers and buffers cut to length do not
    survive tensor, sequence and context parallelism.
    """
    exponents = torch.arange(0, shape.head_width, 2, dtype=torch.float32, device=device) / shape.head_width
    positions = torch.arange(sequence_length, dtype=torch.float32, device=device)
    angles = torch.outer(positions, shape.rope_theta**-exponents)
    return torch.stack((angles.cos(), angles.sin()))


def _rotate(heads: Tensor, rotary: Tensor) -> Tensor:
    """Turns [batch, sequence, heads, head_width] by position, in fp32: a bf16 angle is wrong by whole tokens."""
    cosines, sines = rotary[:, None, :, None, :]
    first, second = heads.float().chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1).type_as(heads)


class Attention(nn.Module):
    """Causal attention in which groups of query heads share a key and value head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_width = shape.head_width
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.key_value_heads * shape.head_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.key_value_heads * shape.head_width, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_width, shape.hidden, bias=False)

    def forward(self, hidden: Tensor, rotary: Tensor) -> Tensor:
        # The number of heads is left to be inferred, because tensor parallelism leaves fewer on a rank.
        query, key, value = (
            projection(hidden).unflatten(-1, (-1, self.head_width))
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _rotate(query, rotary), _rotate(key, rotary)
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True, enable_gqa=True
        )
        attended: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(-2))
        return attended


class FeedForward(nn.Module):
    """SwiGLU (arXiv 2002.05202)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        projected: Tensor = self.down_proj(F.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        return projected


class Layer(nn.Module):
    """Attention and feed-forward, each normalised before and added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.mlp = FeedForward(shape)

    def forward(self, hidden: Tensor, rotary: Tensor) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), rotary)
        mixed: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return mixed


class Decoder(nn.Module):
    """From tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        # Tied means that the parameter exists once: a second name for it would come apart when the meta device is left.
        self.lm_head = None if shape.tied else nn.Linear(shape.hidden, vocabulary, bias=False)

    def forward(self, tokens: Tensor, rotary: Tensor) -> Tensor:
        hidden = self.embed_tokens(tokens)
        for layer in self.layers:
            hidden = layer(hidden, rotary)
        hidden = self.norm(hidden)
        if self.lm_head is None:
            return F.linear(hidden, self.embed_tokens.weight)
        logits: Tensor = self.lm_head(hidden)
        return logits


@torch.no_grad()
def initialise(model: Decoder, seed: int) -> None:
    """Draws the weights, the same for every layout and world size on the same kind of device.

    Every parameter has its own generator, seeded by its name, and every rank draws the whole of it and keeps its shard.
    The deviations are GPT-2's: 0.02, and less by sqrt(2 x layers) where a projection ends on the residual stream
    (https://github.com/openai/gpt-2; Radford et al. 2019, section 2.3).
    """
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.fill_(1.0)
            continue
        ends_on_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
        deviation = 0.02 / (2 * model.shape.layers) ** 0.5 if ends_on_residual else 0.02
        # A digest, because the CPU's generator looks at the low 32 bits of its seed only.
        name_seed = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:4])
        generator = torch.Generator(parameter.device).manual_seed(name_seed)
        full = torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device)
        full.normal_(0.0, deviation, generator=generator)
        if isinstance(parameter, DTensor):
            # No source rank: every rank has the same numbers, so nothing needs to be sent.
            full = distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)
        parameter.copy_(full)
