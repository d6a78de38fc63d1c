"""The first eight layers of torchtitan 0.3.0's Llama 3 8B, for its `--module`. `single_gpu.py` compares with it.

The settings are torchtitan's defaults, except those that make the work equal: eight layers, no activation
checkpointing, no evaluation, no checkpoints, and random tokens in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import CompileConfig
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b

LAYERS = 8
STEPS_BETWEEN_LINES = 5


class RandomTokens(BaseDataLoader):  # type: ignore[misc]
    """A data loader that repeats one batch, which is the minimum cost of data."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc]
        vocabulary: int = 128_256

    def __init__(self, config: Config, *, seq_len: int, local_batch_size: int, **_: Any) -> None:
        tokens = torch.randint(0, config.vocabulary, (local_batch_size, seq_len + 1))
        self._inputs, self._labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        self._positions = torch.arange(seq_len).expand(local_batch_size, -1).contiguous()

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        while True:
            # A new dictionary, because the trainer puts tensors of the device into it.
            yield {"input": self._inputs, "positions": self._positions}, self._labels

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class NoTokenizer(BaseTokenizer):  # type: ignore[misc]
    """A tokenizer without text."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):  # type: ignore[misc]
        pass

    def __init__(self, config: Config, *, tokenizer_path: str) -> None:  # noqa: ARG002
        super().__init__()
        self.eos_id = 0

    def encode(self, *_: Any, **__: Any) -> list[int]:
        return []

    def decode(self, *_: Any, **__: Any) -> str:
        return ""

    def get_vocab_size(self) -> int:
        return 128_256


def bf16() -> Any:
    """Return the configuration for bf16, eager."""
    return _config(compiled=False)


def bf16_compile() -> Any:
    """Return the configuration for bf16, compiled."""
    return _config(compiled=True)


def float8_rowwise_compile() -> Any:
    """Return the configuration for float8 products of the layers, compiled. torchtitan has no tensorwise recipe."""
    return _config(compiled=True, recipe="rowwise")


def _config(compiled: bool, recipe: str | None = None) -> Any:
    config = llama3_8b()
    converters = None
    if recipe:
        # As in ours, the output projection keeps bf16.
        converters = [
            Float8LinearConverter.Config(recipe_name=recipe, filter_fqns=["lm_head"], model_compile_enabled=compiled)
        ]
    config.model_spec = model_registry("8B", converters=converters)
    del config.model_spec.model.layers[LAYERS:]
    config.dataloader, config.tokenizer = RandomTokens.Config(), NoTokenizer.Config()
    config.compile = CompileConfig(enable=compiled)
    config.metrics = MetricsProcessor.Config(log_freq=STEPS_BETWEEN_LINES, disable_color_printing=True)
    config.activation_checkpoint = None
    config.validator.enable = config.checkpoint.enable = config.profiler.enable_profiling = False
    return config
