"""Export a checkpoint to a directory that transformers, vLLM, and others load."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from training.checkpoint import model_files, weights
from training.config.presets import RotaryScaling, Shape
from training.data import shards
from training.data.shards import Index, read_index
from training.errors import UserError
from training.hosts import location_files
from training.hugging_face.configuration import dtype_of, merged, with_end, write_config
from training.hugging_face.families import ModelFamily
from training.hugging_face.names import BIAS, Renaming, renaming, same_for_all
from training.model.decoder import Decoder
from training.observe.progress import ProgressLine

INDEX, GENERATION = "model.safetensors.index.json", "generation_config.json"
FILE_BYTES = 5 * 10**9
"""Largest size of a file: the default of save_pretrained until transformers 5. One file is in memory at a time."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def export(checkpoint: str, data: str, out: Path, dtype: str | None = None, file_bytes: int = FILE_BYTES) -> None:
    """Write the weights of a checkpoint, their config, and their tokenizer.

    Args:
        checkpoint: resolved location of a checkpoint, or of several, of which the newest is exported.
        data: resolved location of the token shards that the run was trained on. They have the tokenizer.
        out: a directory that has no model yet.
        dtype: a key of DTYPES, or None for the type of the weights that the run started from, or bf16 if it started
            from none.
        file_bytes: largest size of the tensors in a file. A single longer tensor gets a file of its own.

    Raises:
        UserError: there is no such checkpoint, the tokenizer is another one, the directory has a model, or a weight is
            not finite in the type.
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

    imported = model_files.read(source)
    kind = DTYPES[dtype] if dtype else _dtype(imported)
    out.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(data, index, identity["sequence_length"], out)
    _write_described(imported, index.end_of_text, out)
    with torch.device("meta"):
        ours = Decoder(shape, vocabulary).state_dict()
    renamings = {name: renaming(family, shape, name) for name in ours}
    line = ProgressLine("export", sum(_bytes(tensor, kind) for tensor in ours.values()), "bytes")
    files, done = _write_weights(source, ours, renamings, kind, file_bytes, out, line)
    # Write the config last, because without it no program takes the directory for a model.
    config = write_config(family, shape, vocabulary, identity["sequence_length"], index.end_of_text, _name(kind))
    if "config.json" in imported:
        config = merged(config, imported["config.json"])
    _write(out / "config.json", config)
    line.finish(f"{config['architectures'][0]} of step {progress.step} in {_name(kind)}, {files} files, {done:,} bytes")


def _write_weights(
    source: str,
    ours: dict[str, Tensor],
    renamings: dict[str, Renaming],
    dtype: torch.dtype,
    file_bytes: int,
    out: Path,
    line: ProgressLine,
) -> tuple[int, int]:
    """Write the weights. Return the number of files and the total bytes of their tensors."""
    files = list(_files(ours, renamings, dtype, file_bytes))
    weight_map: dict[str, str] = {}
    done = 0
    for number, names in enumerate(files, start=1):
        file = f"model-{number:05d}-of-{len(files):05d}.safetensors" if len(files) > 1 else "model.safetensors"
        theirs = _read(source, {name: ours[name] for name in names}, renamings, dtype)
        # A file gets its final name when it is complete.
        unfinished = out / f".{file}"
        save_file(theirs, unfinished, metadata={"format": "pt"})
        # safetensors lets only the user read a file, regardless of the umask.
        unfinished.chmod((out / "tokenizer.json").stat().st_mode)
        unfinished.replace(out / file)
        weight_map |= dict.fromkeys(theirs, file)
        done += sum(tensor.nbytes for tensor in theirs.values())
        line.update(done)
    if len(files) > 1:
        _write(out / INDEX, {"metadata": {"total_size": done}, "weight_map": dict(sorted(weight_map.items()))})
    return len(files), done


def _write_tokenizer(data: str, index: Index, longest: int, out: Path) -> None:
    """Write the tokenizer of the token shards, and the configuration that transformers needs for it."""
    location = location_files.join(data, index.tokenizer.name)
    content = location_files.read(location)
    if content is None or hashlib.sha256(content).hexdigest() != index.tokenizer.sha256:
        raise UserError(f"{location}: is missing or does not match its {shards.INDEX}. Prepare the data again")
    (out / "tokenizer.json").write_bytes(content)
    end = Tokenizer.from_str(content.decode()).id_to_token(index.end_of_text)
    _write(
        out / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "model_max_length": longest},
    )


def _write_described(imported: dict[str, bytes], end_of_text: int, out: Path) -> None:
    """Write how the model is used: as it was imported, or that a text ends with `end_of_text`."""
    for name, content in imported.items():
        if name != "config.json":
            (out / name).parent.mkdir(exist_ok=True)
            (out / name).write_bytes(content)
    config: dict[str, Any] = json.loads(imported.get("config.json", b"{}"))
    # Without this file, transformers takes all settings of generation from config.json.
    if GENERATION in imported or not config:
        generation: dict[str, Any] = json.loads(imported.get(GENERATION, b"{}"))
        ends = generation.get("eos_token_id")
        generation["eos_token_id"] = with_end(config.get("eos_token_id") if ends is None else ends, end_of_text)
        _write(out / GENERATION, generation)


def _dtype(imported: dict[str, bytes]) -> torch.dtype:
    """Return the type of the imported weights, or bf16 if none were imported. fp64 becomes fp32, as in checkpoints."""
    known = dtype_of(imported["config.json"]) if "config.json" in imported else None
    dtypes = {"float64": torch.float32} | {_name(kind): kind for kind in DTYPES.values()}
    return dtypes[known] if known else torch.bfloat16


def _name(dtype: torch.dtype) -> str:
    """Return the name of a type in `config.json`."""
    return str(dtype).removeprefix("torch.")


def _shape(saved: dict[str, Any]) -> tuple[Shape, int]:
    """Return the shape and the vocabulary that a run recorded in its identity."""
    sizes = dict(saved)
    vocabulary = sizes.pop("vocabulary")
    scaling = sizes.pop("rope_scaling")
    return Shape(**sizes, rope_scaling=RotaryScaling(**scaling) if scaling else None), vocabulary


def _family(shape: Shape, source: str) -> ModelFamily:
    """Return the model family that computes what the model does."""
    if not shape.experts:
        return "mistral" if shape.sliding_window else "llama"
    biases = {f"layers.{layer}{BIAS}": torch.empty(shape.experts) for layer in range(shape.layers)}
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
    """Yield the names of our tensors for each file."""
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
    """Return the tensors of one file, under the names that transformers uses."""
    loaded = {name: torch.empty_like(tensor, device="cpu") for name, tensor in ours.items()}
    weights.read(source, dict(loaded))
    for name, tensor in loaded.items():
        if not tensor.isfinite().all():
            raise UserError(
                f"{source}: {name} has numbers that are not finite, and a model with them answers nothing. Export an "
                "older checkpoint with --checkpoint …/step-…"
            )
    theirs: dict[str, Tensor] = {}
    for name in ours:
        # Remove each tensor from `loaded`, so that only one tensor exists in both types at a time.
        tensors = renamings[name].there(loaded.pop(name))
        for their_name, tensor in zip(renamings[name].names, tensors, strict=True):
            # A bias is a sum of small steps. In bf16, later steps would be lost.
            kept = torch.float32 if name.endswith(BIAS) else dtype
            theirs[their_name] = tensor.to(kept).contiguous()
            if not theirs[their_name].isfinite().all():
                raise UserError(
                    f"{source}: {name} has numbers above {torch.finfo(kept).max:g}, the largest that {_name(kept)} can "
                    "hold. Export with --dtype fp32"
                )
    return theirs


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
