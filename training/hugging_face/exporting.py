"""A checkpoint of ours as a directory that transformers, vLLM and others load."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from training.checkpoint import weights
from training.data import shards
from training.data.shards import Index, read_index
from training.errors import UserError
from training.hosts import location_files
from training.hugging_face.configuration import ModelFamily, write_config
from training.hugging_face.names import CORRECTION_BIAS, Renaming, renaming, same_for_all
from training.model.decoder import Decoder
from training.model.presets import RotaryScaling, Shape
from training.observe.progress import ProgressLine

INDEX = "model.safetensors.index.json"
FILE_BYTES = 5 * 10**9
"""A file ends before it is longer: what save_pretrained took until transformers 5. One is in memory at a time."""
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def export(checkpoint: str, data: str, out: Path, dtype: str, file_bytes: int = FILE_BYTES) -> None:
    """Writes the weights of a checkpoint, their config and their tokenizer.

    Args:
        checkpoint: resolved location of a checkpoint, or of several, of which the newest is taken.
        data: resolved location of the token shards that it learned from; they have the tokenizer.
        out: a directory that has no model yet.
        dtype: a key of DTYPES.
        file_bytes: bytes of the tensors in a file, at most, but for a tensor that is longer alone.

    Raises:
        UserError: there is no such checkpoint, the tokenizer is another one, or the directory has a model.
    """
    source = weights.find(checkpoint)
    progress, identity = weights.describe(source)
    index = read_index(data)
    if index.tokenizer.sha256 != identity["tokenizer"]:
        raise UserError(f"{data} was made with another tokenizer than the data that {source} learned from")
    if any(out.glob("*.safetensors")) or (out / "config.json").exists():
        raise UserError(f"{out}: there is a model here already. Choose another --out, or delete it first")
    shape, vocabulary = _shape(identity["model"])
    family = _family(shape, source)

    out.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(data, index, identity["sequence_length"], out)
    _write(out / "generation_config.json", {"eos_token_id": index.end_of_text})
    with torch.device("meta"):
        ours = Decoder(shape, vocabulary).state_dict()
    renamings = {name: renaming(family, shape, name) for name in ours}
    line = ProgressLine("export", sum(_bytes(tensor, DTYPES[dtype]) for tensor in ours.values()), "bytes")
    files, done = _write_weights(source, ours, renamings, DTYPES[dtype], file_bytes, out, line)
    # Last, because without it nobody takes the directory for a model.
    torch_dtype = str(DTYPES[dtype]).removeprefix("torch.")
    config = write_config(family, shape, vocabulary, identity["sequence_length"], index.end_of_text, torch_dtype)
    _write(out / "config.json", config)
    line.finish(f"{config['architectures'][0]} of step {progress.step} in {dtype}, {files} files, {done:,} bytes")


def _write_weights(
    source: str,
    ours: dict[str, Tensor],
    renamings: dict[str, Renaming],
    dtype: torch.dtype,
    file_bytes: int,
    out: Path,
    line: ProgressLine,
) -> tuple[int, int]:
    """The number of files and of bytes of their tensors."""
    files = list(_files(ours, renamings, dtype, file_bytes))
    weight_map: dict[str, str] = {}
    done = 0
    for number, names in enumerate(files, start=1):
        file = f"model-{number:05d}-of-{len(files):05d}.safetensors" if len(files) > 1 else "model.safetensors"
        theirs = _read(source, {name: ours[name] for name in names}, renamings, dtype)
        # Under its name it is whole.
        unfinished = out / f".{file}"
        save_file(theirs, unfinished, metadata={"format": "pt"})
        unfinished.replace(out / file)
        weight_map |= dict.fromkeys(theirs, file)
        done += sum(tensor.nbytes for tensor in theirs.values())
        line.update(done)
    if len(files) > 1:
        _write(out / INDEX, {"metadata": {"total_size": done}, "weight_map": dict(sorted(weight_map.items()))})
    return len(files), done


def _write_tokenizer(data: str, index: Index, longest: int, out: Path) -> None:
    """The tokenizer of the token shards, and what transformers has to know of it."""
    location = location_files.join(data, index.tokenizer.name)
    content = location_files.read(location)
    if content is None or hashlib.sha256(content).hexdigest() != index.tokenizer.sha256:
        raise UserError(f"{location}: is missing or is not the one of its {shards.INDEX}. Prepare the data again")
    (out / "tokenizer.json").write_bytes(content)
    end = Tokenizer.from_str(content.decode()).id_to_token(index.end_of_text)
    _write(
        out / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "model_max_length": longest},
    )


def _shape(saved: dict[str, Any]) -> tuple[Shape, int]:
    """The shape and the vocabulary that a run wrote into its identity."""
    sizes = dict(saved)
    vocabulary = sizes.pop("vocabulary")
    scaling = sizes.pop("rope_scaling")
    return Shape(**sizes, rope_scaling=RotaryScaling(**scaling) if scaling else None), vocabulary


def _family(shape: Shape, source: str) -> ModelFamily:
    """The family that computes what the model does."""
    if not shape.experts:
        return "mistral" if shape.sliding_window else "llama"
    biases = {f"layers.{layer}.mlp.bias": torch.empty(shape.experts) for layer in range(shape.layers)}
    weights.read(source, dict(biases))
    if all(same_for_all(bias) for bias in biases.values()):
        return "mixtral"
    if shape.sliding_window:
        raise UserError(
            f"{source}: has experts that are chosen with a bias and a sliding window of {shape.sliding_window}; "
            "transformers has no model with both"
        )
    return "ernie4_5_moe"


def _files(
    ours: dict[str, Tensor], renamings: dict[str, Renaming], dtype: torch.dtype, file_bytes: int
) -> Iterator[list[str]]:
    """The names of ours that go into each file."""
    names: list[str] = []
    taken = 0
    for name, tensor in ours.items():
        width = _bytes(tensor, dtype) if renamings[name].names else 0
        if names and taken + width > file_bytes:
            yield names
            names, taken = [], 0
        names.append(name)
        taken += width
    yield names


def _bytes(tensor: Tensor, dtype: torch.dtype) -> int:
    return tensor.numel() * dtype.itemsize


def _read(
    source: str, ours: dict[str, Tensor], renamings: dict[str, Renaming], dtype: torch.dtype
) -> dict[str, Tensor]:
    """The tensors of one file, by their names there."""
    loaded = {name: torch.empty_like(tensor, device="cpu") for name, tensor in ours.items()}
    weights.read(source, dict(loaded))
    theirs: dict[str, Tensor] = {}
    for name in ours:
        # Taken out, so that no more than one tensor is there in both types.
        tensors = renamings[name].there(loaded.pop(name))
        for their_name, tensor in zip(renamings[name].names, tensors, strict=True):
            # A bias is a sum of small steps, of which bf16 would keep the first ones.
            kept = torch.float32 if their_name.endswith(CORRECTION_BIAS) else dtype
            theirs[their_name] = tensor.to(kept).contiguous()
    return theirs


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
