"""The Llama 3 decoder (arXiv 2407.21783): RMSNorm, rotary positions, grouped-query attention, SwiGLU.

It is plain PyTorch without parallelism, which `parallel/` applies from outside. Parameters have the names, shapes, and
rotary convention of Hugging Face's `LlamaForCausalLM`, without its leading `model.`, so weights can be exchanged by
renaming.
"""

import hashlib
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from training.config.presets import RotaryScaling, Shape
from training.model.attention import attend
from training.model.experts import MixtureOfExperts
from training.model.loss import LossOfChunk, linear_cross_entropy


def rotary_cache(shape: Shape, sequence_length: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the cosines and sines of all positions: fp32, [2, sequence_length, head_width / 2] (arXiv 2104.09864).

    The cache is real-valued and an argument of the model, not a buffer in it. Complex numbers and truncated buffers do
    not survive tensor, sequence, and context parallelism.
    """
    exponents = torch.arange(0, shape.head_width, 2, dtype=torch.float32, device=device) / shape.head_width
    frequencies = shape.rope_theta**-exponents
    if shape.rope_scaling:
        frequencies = _stretched(frequencies, shape.rope_scaling)
    positions = torch.arange(sequence_length, dtype=torch.float32, device=device)
    angles = torch.outer(positions, frequencies)
    return torch.stack((angles.cos(), angles.sin()))


def _stretched(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    """Return Llama 3.1's rotary frequencies for longer texts.

    Low frequencies are divided by the factor, high ones stay unchanged, and those between follow a ramp.

    https://github.com/meta-llama/llama-models/blob/main/models/llama3/model.py, `apply_scaling` (read 2026-11-21)
    """
    turns = scaling.original_length * frequencies / (2 * math.pi)
    kept = ((turns - scaling.low_turns) / (scaling.high_turns - scaling.low_turns)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / scaling.factor)


def _rotate(heads: Tensor, rotary: Tensor) -> Tensor:
    """Rotate [batch, sequence, heads, head_width] by position.

    In fp32, because a bf16 angle is wrong by whole tokens.
    """
    cosines, sines = rotary[:, None, :, None, :]
    first, second = heads.float().chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1).type_as(heads)


class Attention(nn.Module):
    """Causal attention in which groups of query heads share a key and value head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_width = shape.head_width
        self.window = shape.sliding_window
        # An attribute, so that context parallelism can replace it.
        self.attend = attend
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.key_value_heads * shape.head_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.key_value_heads * shape.head_width, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_width, shape.hidden, bias=False)

    def forward(self, hidden: Tensor, rotary: Tensor, documents: Tensor | None = None) -> Tensor:
        # Infer the number of heads, because tensor parallelism leaves fewer on a rank.
        query, key, value = (
            projection(hidden).unflatten(-1, (-1, self.head_width))
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _rotate(query, rotary), _rotate(key, rotary)
        query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
        mixed = self.attend(query, key, value, documents, self.window)
        attended: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(-2))
        return attended


class FeedForward(nn.Module):
    """The feed-forward part of a layer, a SwiGLU (arXiv 2002.05202)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        projected: Tensor = self.down_proj(F.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        return projected


class Layer(nn.Module):
    """Attention and feed-forward, each with a norm before it, added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.mlp = MixtureOfExperts(shape) if shape.experts else FeedForward(shape)

    def forward(self, hidden: Tensor, rotary: Tensor, documents: Tensor | None = None) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), rotary, documents)
        mixed: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return mixed


class OutputProjection(nn.Linear):
    """The projection of the normalized residual stream to logits: [..., hidden] to [..., vocabulary]."""

    def loss(self, hidden: Tensor, targets: Tensor, chunks: int, compiled: LossOfChunk | None = None) -> Tensor:
        """Return the mean cross-entropy: hidden [batch, sequence, hidden], targets [batch, sequence].

        All chunks are one use of the weights. FSDP would reduce the gradient after every call of the module.
        """
        return linear_cross_entropy(hidden, self.weight, targets, chunks, compiled)


class Decoder(nn.Module):
    """The model, from tokens [batch, sequence] to logits [batch, sequence, vocabulary], or to the loss of targets.

    Pipeline parallelism gives a rank a decoder without some layers, the embedding, or the head. Such a decoder takes or
    returns the residual stream instead of tokens or logits. `documents` are the positions at which the documents of
    each sample begin if attention stays inside them (see `training.model.attention.attend`).
    """

    def __init__(self, shape: Shape, vocabulary: int, loss_chunks: int = 1) -> None:
        super().__init__()
        self.shape = shape
        self.loss_chunks = loss_chunks
        self.compiled_loss: LossOfChunk | None = None
        self.embed_tokens: nn.Embedding | None = nn.Embedding(vocabulary, shape.hidden)
        # Layers are keyed by number, so that they keep their names on a rank that has only some of them.
        self.layers = nn.ModuleDict({str(number): Layer(shape) for number in range(shape.layers)})
        self.norm: nn.RMSNorm | None = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        # A tied parameter exists once. A second name for it would become a separate parameter off the meta device.
        self.lm_head = None if shape.tied else OutputProjection(shape.hidden, vocabulary, bias=False)

    def forward(
        self, tokens: Tensor, rotary: Tensor, targets: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        hidden = tokens if self.embed_tokens is None else self.embed_tokens(tokens)
        for layer in self.layers.values():
            hidden = layer(hidden, rotary, documents)
        if self.norm is None:
            return hidden
        hidden = self.norm(hidden)
        if targets is None:
            return self.logits(hidden)
        if self.lm_head is not None:
            return self.lm_head.loss(hidden, targets, self.loss_chunks, self.compiled_loss)
        assert self.embed_tokens is not None
        return linear_cross_entropy(hidden, self.embed_tokens.weight, targets, self.loss_chunks, self.compiled_loss)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the output projection of the normalized residual stream."""
        if self.lm_head is not None:
            projected: Tensor = self.lm_head(hidden)
            return projected
        assert self.embed_tokens is not None  # a pipeline of several stages refuses tied models
        return F.linear(hidden, self.embed_tokens.weight)


def materialize(model: Decoder, device: torch.device, offload: bool = False) -> None:
    """Allocate the memory of a model on the meta device: uninitialized weights, and buffers of zeros.

    A checkpoint fills the weights and the persistent buffers. With `offload`, the weights are in host memory. Buffers
    are always on `device`, because computations use them there.
    """
    model.to_empty(device="cpu" if offload else device)
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, torch.zeros_like(buffer, device=device))


@torch.no_grad()
def initialize(model: Decoder, seed: int) -> None:
    """Initialize the weights, the same for every layout and world size on the same kind of device.

    Every parameter has its own generator, seeded by its name. Every rank draws the whole parameter and keeps its shard.
    The standard deviations are GPT-2's: 0.02, divided by sqrt(2 x layers) for projections onto the residual stream
    (https://github.com/openai/gpt-2; Radford et al. 2019, section 2.3).
    """
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.fill_(1.0)
            continue
        ends_on_residual = name.endswith(("o_proj.weight", "down_proj.weight", "experts.down_proj"))
        deviation = 0.02 / (2 * model.shape.layers) ** 0.5 if ends_on_residual else 0.02
        # Use a digest, because the CPU's generator uses only the low 32 bits of its seed.
        name_seed = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:4])
        generator = torch.Generator(parameter.device).manual_seed(name_seed)
        full = torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device)
        full.normal_(0.0, deviation, generator=generator)
        if isinstance(parameter, DTensor):
            # No source rank is needed: every rank has the same numbers, so nothing is sent.
            full = distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)
        parameter.copy_(full)
