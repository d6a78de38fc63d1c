"""The sizes of the models, each with its source (read 2026-11-21)."""

from dataclasses import dataclass, replace

from training.config.variant import Variant


@dataclass(frozen=True)
class RotaryScaling:
    """Scaling of rotary positions for texts longer than those of the original training (Llama 3.1)."""

    factor: float
    """Factor by which low frequencies are divided."""
    original_length: int
    """Length in tokens of the longest text of the original training."""
    low_turns: float = 1.0
    """Frequencies with fewer turns within `original_length` are divided by the whole factor."""
    high_turns: float = 4.0
    """Frequencies with more turns stay unchanged."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama-class decoder without its vocabulary, which comes from the data."""

    layers: int
    hidden: int
    """Width of the residual stream."""
    heads: int
    """Query heads."""
    key_value_heads: int
    feed_forward: int
    """Width inside the SwiGLU."""
    tied: bool
    """Whether the output projection uses the embedding's weights."""
    rope_theta: float = 500_000.0
    norm_epsilon: float = 1e-5
    rope_scaling: RotaryScaling | None = None
    sliding_window: int | None = None
    """Number of tokens that a token attends to, itself included. None: all tokens before it."""
    experts: int = 0
    """Number of feed-forwards in a layer, each `feed_forward` wide. 0: one that processes all tokens."""
    experts_per_token: int = 2
    attention_width: int | None = None
    """Width of all query heads together. None: `hidden`."""

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return (self.attention_width or self.hidden) // self.heads


# Llama 3 8B (arXiv 2407.21783, table 3): https://huggingface.co/NousResearch/Meta-Llama-3-8B/blob/main/config.json
_LLAMA_3_8B = Shape(layers=32, hidden=4096, heads=32, key_value_heads=8, feed_forward=14336, tied=False)

PRESETS = {
    # Our own size. It learns visibly in a minute on two CPU cores.
    "tiny": Shape(layers=4, hidden=128, heads=4, key_value_heads=2, feed_forward=384, tied=True, rope_theta=10_000.0),
    # GPT-3 Small (arXiv 2005.14165, table 2.1: 12 layers, 768 wide, 12 heads). Its feed-forward of 4 x 768 has two
    # matrices; SwiGLU has three, so 8/3 x 768 = 2048 has the same number of weights (arXiv 2002.05202, section 2).
    "125m": Shape(layers=12, hidden=768, heads=12, key_value_heads=12, feed_forward=2048, tied=True),
    # Llama 3.2 1B: https://huggingface.co/unsloth/Llama-3.2-1B/blob/main/config.json
    "1b": Shape(layers=16, hidden=2048, heads=32, key_value_heads=8, feed_forward=8192, tied=True),
    # Our own size: the 1B with eight experts, two per token, as in Mixtral 8x7B (arXiv 2401.04088, table 1).
    "8x1b": Shape(
        layers=16,
        hidden=2048,
        heads=32,
        key_value_heads=8,
        feed_forward=8192,
        tied=True,
        experts=8,
        experts_per_token=2,
    ),
    "8b": _LLAMA_3_8B,
    # A quarter of the 8B's layers, which fit on one GPU. Benchmarks use it.
    "8b-slice8": replace(_LLAMA_3_8B, layers=8),
    # Llama 3 70B and 405B (arXiv 2407.21783, table 3).
    "70b": Shape(layers=80, hidden=8192, heads=64, key_value_heads=8, feed_forward=28672, tied=False),
    "405b": Shape(layers=126, hidden=16384, heads=128, key_value_heads=8, feed_forward=53248, tied=False),
}


def shape_of(preset: str, variant: Variant) -> Shape:
    """Return the shape of a preset with the changes of the job file."""
    changes = variant.model_dump(exclude_none=True)
    if variant.rope_scaling:
        changes["rope_scaling"] = RotaryScaling(**changes["rope_scaling"])
    return replace(PRESETS[preset], **changes)
