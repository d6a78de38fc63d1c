"""Small models of transformers on disk, and what a test compares of them with ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from training.config.presets import PRESETS, RotaryScaling, Shape

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 32
# In fp32, of logits of up to 3.
LARGEST_DIFFERENCE = 1e-5
# What Llama 3.1 has, for texts that are longer than 16.
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


class SavedModel(NamedTuple):
    """A model of transformers, by the class of its configuration and the keys that differ from those of all models."""

    config: str
    keys: dict[str, Any]
    back: str | None = None
    """Class of the exported model. None: the class of the imported model."""


MODELS: dict[str, SavedModel] = {
    "Llama": SavedModel("LlamaConfig", {"tie_word_embeddings": False}),
    "Llama, tied": SavedModel("LlamaConfig", {"tie_word_embeddings": True}),
    "Llama 3.1": SavedModel("LlamaConfig", {"rope_parameters": STRETCHED}),
    "Llama with wide heads": SavedModel("LlamaConfig", {"head_dim": 32}),
    "Mistral with a window": SavedModel("MistralConfig", {"sliding_window": 7}),
    "Mixtral": SavedModel("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": 9}),
    "ERNIE 4.5 with experts": SavedModel(
        "Ernie4_5_MoeConfig",
        {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 96,
            "moe_num_shared_experts": 0,
            "moe_layer_start_index": 0,
        },
    ),
}
LLAMA_3_1_8B = replace(PRESETS["8b"], rope_scaling=RotaryScaling(8.0, 8192))


Make = Callable[..., tuple[Path, Any]]


Command = Callable[..., None]
UP = "model.layers.0.mlp.up_proj.weight"


def tokens(vocabulary: int) -> Tensor:
    import torch

    return torch.randint(0, vocabulary, (2, LENGTH), generator=torch.Generator().manual_seed(3))


def our_logits(source: str, shape: Shape, vocabulary: int) -> Tensor:
    import torch

    from training.checkpoint import weights
    from training.model.decoder import Decoder, rotary_cache

    model = Decoder(shape, vocabulary)
    weights.read(source, model.state_dict())
    with torch.no_grad():
        logits: Tensor = model(tokens(vocabulary), rotary_cache(shape, LENGTH))
    return logits


def their_logits(model: Any, vocabulary: int) -> Tensor:
    import torch

    with torch.no_grad():
        logits: Tensor = model(tokens(vocabulary)).logits
    return logits


def difference(one: Tensor, other: Tensor, least: float = 1.0) -> float:
    assert one.abs().max() > least, "there is something to compare"
    return (one - other).abs().max().item()


def spoil_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def spoil_tensors(directory: Path, change: Callable[[dict[str, Tensor]], Any]) -> None:
    """Changes the file of the first layer's tensors, and the index with it."""
    from safetensors.torch import load_file, save_file

    index = json.loads((directory / "model.safetensors.index.json").read_text())
    path = directory / index["weight_map"]["model.layers.0.mlp.up_proj.weight"]
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if file != path.name}
    index["weight_map"] |= dict.fromkeys(tensors, path.name)
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def describe(directory: Path) -> None:
    """Add to a saved model what transformers needs to chat with it."""
    spoil_config(directory, eos_token_id=[7, 5], made_by="someone")
    generation = {"temperature": 0.6, "do_sample": True, "eos_token_id": [7, 5]}
    (directory / "generation_config.json").write_text(json.dumps(generation))
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<0x00>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    template = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    (directory / "chat_template.jinja").write_text(template)


def umask() -> int:
    """Return the bits that new files do not get."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
