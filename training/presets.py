"""The sizes of the models, each from its source (read 2026-11-21)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A Llama-class decoder, less its vocabulary, which comes from the data."""

    layers: int
    hidden: int
    """Width of the residual stream."""
    heads: int
    """Query heads."""
    key_value_heads: int
    feed_forward: int
    """Width inside the SwiGLU."""
    tied: bool
    """Whether the output projection is the embedding."""
    rope_theta: float = 500_000.0
    norm_epsilon: float = 1e-5

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads


PRESETS = {
    # Ours: learns visibly in a minute on two CPU cores.
    "tiny": Shape(layers=4, hidden=128, heads=4, key_value_heads=2, feed_forward=384, tied=True, rope_theta=10_000.0),
    # GPT-3 Small (arXiv 2005.14165, table 2.1: 12 layers, 768 wide, 12 heads). Its feed-forward of 4 x 768 has two
    # matrices; SwiGLU has three, so 8/3 x 768 = 2048 has the same number of weights (arXiv 2002.05202, section 2).
    "125m": Shape(layers=12, hidden=768, heads=12, key_value_heads=12, feed_forward=2048, tied=True),
    # Llama 3.2 1B: https://huggingface.co/unsloth/Llama-3.2-1B/blob/main/config.json
    "1b": Shape(layers=16, hidden=2048, heads=32, key_value_heads=8, feed_forward=8192, tied=True),
    # Llama 3 8B (arXiv 2407.21783, table 3): https://huggingface.co/NousResearch/Meta-Llama-3-8B/blob/main/config.json
    "8b": Shape(layers=32, hidden=4096, heads=32, key_value_heads=8, feed_forward=14336, tied=False),
}
