"""Models of transformers with random weights, and the command that imports and exports them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.saved_models import MODELS, Command, Make
from training.data.shards import read_index


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Return the library transformers. Its import takes seconds, so only tests that use it import it."""
    import transformers

    return transformers


@pytest.fixture
def made(transformers: Any, corpus_directory: Path, tmp_path: Path) -> Make:
    """Return a function that saves a model of transformers with random weights, beside the tokenizer of the corpus."""
    import torch

    def make(model: str = "Llama", **sizes: Any) -> tuple[Path, Any]:
        saved = MODELS[model]
        usual = {
            "vocab_size": read_index(str(corpus_directory)).vocabulary,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5,
        }
        torch.manual_seed(0)
        built = transformers.AutoModelForCausalLM.from_config(
            getattr(transformers, saved.config)(**usual | saved.keys | sizes), attn_implementation="eager"
        )
        with torch.no_grad():
            for name, tensor in [*built.named_parameters(), *built.named_buffers()]:
                if "correction_bias" in name:
                    tensor.normal_(0, 0.05)
                elif name.endswith("weight"):
                    # As drawn, all logits are nearly the same, and the norms do nothing.
                    tensor.add_(torch.randn_like(tensor) * 0.1) if tensor.ndim == 1 else tensor.mul_(4)
        directory = tmp_path / f"made-{len(list(tmp_path.glob('made-*')))}"
        built.save_pretrained(directory, max_shard_size="100KB")
        shutil.copy(corpus_directory / "tokenizer.json", directory)
        return directory, built.eval()

    return make


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs `python -m training.hugging_face` with arguments, in this process."""
    from training.hugging_face.__main__ import main

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["hugging_face", *arguments])
        main()

    return run
