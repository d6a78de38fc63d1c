"""Import a directory of transformers as the first checkpoint of a run, before the first step."""

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import MetadataIndex

from training.checkpoint import Progress, model_files, step_location
from training.checkpoint.failures import write_failure
from training.checkpoint.stored import complete
from training.checkpoint.stores import writer
from training.config.presets import Shape
from training.data.tokenizer import load_tokenizer, vocabulary_of
from training.errors import UserError
from training.hugging_face.configuration import DTYPES, read_config, with_dtype
from training.hugging_face.families import ModelFamily
from training.hugging_face.names import renaming
from training.model.decoder import Decoder

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = dict(zip(("F64", "F32", "F16", "BF16"), DTYPES, strict=True))
"""Types of weights that are read: their names in safetensors, and in PyTorch."""
# Rotary frequencies of Llama. Older versions stored them, but they are always computed.
COMPUTED = "rotary_emb.inv_freq"


class _Files:
    """The tensors of a directory by name, each read on demand."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file_of = self._weight_map()
        self.names = set(self._file_of)

    def path(self, name: str) -> Path:
        """Return the path of the file that has a tensor."""
        return self._directory / self._file_of[name]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor in fp32, the type of all our weights."""
        tensor: Tensor = _open(self.path(name)).get_tensor(name)
        return tensor.float()

    def dtype(self, name: str) -> str:
        """Return PyTorch's name of the type of a tensor."""
        return FLOATS[_open(self.path(name)).get_slice(name).get_dtype()]

    def check(self, name: str, expected: list[int]) -> None:
        """Check that a tensor exists and has its shape. This reads only the beginning of its file."""
        if name not in self.names:
            raise UserError(
                f"{self._directory}: no file has the tensor {name}, which a model of its config.json has with the "
                f"shape {expected}"
            )
        path = self.path(name)
        if name not in _open(path).keys():  # noqa: SIM118  # it is no mapping
            raise UserError(f"{path}: has no tensor {name}, but {INDEX} lists it there. Copy both again")
        tensor = _open(path).get_slice(name)
        if tensor.get_shape() != expected:
            raise UserError(f"{path}: {name} has the shape {tensor.get_shape()}; config.json requires {expected}")
        if tensor.get_dtype() not in FLOATS:
            raise UserError(f"{path}: {name} is of {tensor.get_dtype()}; supported are {', '.join(sorted(FLOATS))}")

    def _weight_map(self) -> dict[str, str]:
        """Return the name of the file that each tensor is in."""
        index = self._directory / INDEX
        if index.is_file():
            try:
                weight_map: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{index}: is not an index of safetensors: {error!r}. Copy it again") from error
            return weight_map
        if not (self._directory / SINGLE).is_file():
            raise UserError(
                f"{self._directory}: has neither {INDEX} nor {SINGLE}; other formats of weights are not read"
            )
        return dict.fromkeys(_open(self._directory / SINGLE).keys(), SINGLE)


def _open(path: Path) -> Any:
    """Open a file as a memory map. Each tensor opens it anew, so that pages that were read do not stay in memory."""
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise UserError(f"{path}: is in {INDEX}, but does not exist. Copy it again") from error
    except SafetensorError as error:
        raise UserError(f"{path}: is not a complete safetensors file: {error}. Copy it again") from error


def check_finite(path: Path, name: str, tensor: Tensor) -> None:
    """Raise UserError for a tensor with numbers that are not finite. A model with them learns and answers nothing."""
    if not tensor.isfinite().all():
        raise UserError(f"{path}: {name} has numbers that are not finite. Copy the file again, or import other weights")


class _Streamed(DefaultSavePlanner):
    """Save a model of the meta device by reading each tensor when it is written.

    Only one tensor is in memory at a time.
    """

    def __init__(self, files: _Files, family: ModelFamily, shape: Shape) -> None:
        super().__init__()
        self._files, self._family, self._shape = files, family, shape

    def lookup_object(self, index: MetadataIndex) -> Any:
        """Return the object to write under a name."""
        known = super().lookup_object(index)
        if not isinstance(known, Tensor) or not known.is_meta:
            return known
        renamed = renaming(self._family, self._shape, index.fqn.removeprefix("model."))
        tensors = {name: self._files.tensor(name) for name in renamed.names}
        for name, tensor in tensors.items():
            check_finite(self._files.path(name), name, tensor)
        tensor = renamed.here(list(tensors.values()))
        # Keep only the rows of tokens that the tokenizer has.
        return tensor[: known.shape[0]].contiguous()


def import_(directory: Path, out: str) -> Shape:
    """Write the weights of a directory as the checkpoint of step 0 at a resolved location. Return their shape.

    Raises:
        UserError: the directory is incomplete, ours does not support its model, a weight is not finite, or the
            location has a checkpoint.
    """
    family, shape, rows, length = read_config(directory / "config.json")
    tokenizer = directory / "tokenizer.json"
    vocabulary = _vocabulary(tokenizer, rows)
    if complete(out):
        raise UserError(f"{out}: there is a checkpoint here already. Choose another --out, or delete it first")

    with torch.device("meta"):
        theirs, ours = (Decoder(shape, tokens).state_dict() for tokens in (rows, vocabulary))
    files = _Files(directory)
    _check_tensors(files, family, shape, theirs)

    identity = {
        "model": asdict(shape) | {"vocabulary": vocabulary},
        "tokenizer": hashlib.sha256(tokenizer.read_bytes()).hexdigest(),
        "sequence_length": length,
    }
    described = model_files.find(directory)
    (embedding,) = renaming(family, shape, "embed_tokens.weight").names
    described["config.json"] = with_dtype(described["config.json"], files.dtype(embedding))
    # Write them before the checkpoint, because a complete checkpoint is not imported again.
    model_files.write(out, described)
    run = Progress(step=0, samples=0, loss=float("nan")).as_entry(identity)
    _write({"model": ours, "run": run}, step_location(out, 0), _Streamed(files, family, shape))
    if vocabulary < rows:
        left_out = f"{directory} has rows for {rows} tokens and a tokenizer of {vocabulary}; the others are left out"
        print(left_out, file=sys.stderr)
    return shape


def _vocabulary(tokenizer: Path, rows: int) -> int:
    """Return the number of tokens of a tokenizer, for weights that have embeddings of `rows` tokens.

    Raises:
        UserError: there is no tokenizer, or it has more tokens than the weights.
    """
    if not tokenizer.is_file():
        raise UserError(
            f"{tokenizer}: is not there, and the data has to be made with it. Make it with transformers: "
            "`AutoTokenizer.from_pretrained(…).save_pretrained(…)`"
        )
    vocabulary = vocabulary_of(load_tokenizer(tokenizer))
    if vocabulary > rows:
        raise UserError(
            f"{tokenizer.parent}: tokenizer.json has {vocabulary} tokens, but config.json says that the weights are "
            f"for vocab_size {rows}; they do not belong together"
        )
    return vocabulary


def _check_tensors(files: _Files, family: ModelFamily, shape: Shape, expected: dict[str, Tensor]) -> None:
    """Check that files have the expected tensors of a model, by their names here, and no others.

    Raises:
        UserError: a tensor is missing, is of another shape, or is unknown.
    """
    unknown = {name for name in files.names if not name.endswith(COMPUTED)}
    if shape.tied:
        unknown.discard("lm_head.weight")
    for name, tensor in expected.items():
        renamed = renaming(family, shape, name)
        unknown -= set(renamed.names)
        for their_name, part in zip(renamed.names, renamed.there(tensor), strict=True):
            files.check(their_name, list(part.shape))
    if unknown:
        first = min(unknown)
        raise UserError(f"{files.path(first)}: has the tensor {first}, which models of {family} here do not have")


def _write(state: dict[str, Any], destination: str, planner: _Streamed) -> None:
    """Write a state of the meta device as a checkpoint at a destination, with the tensors that the planner reads.

    Raises:
        UserError: a weight is not finite, or the checkpoint cannot be written.
    """
    storage_writer = writer(destination)
    # Write one file per tensor. A single file of a large model would exceed the 10,000 parts that S3 allows, at the
    # usual part size.
    storage_writer.single_file_per_rank = False
    try:
        state_dict_saver.save(state, storage_writer=storage_writer, planner=planner)
    except CheckpointException as error:
        # What is wrong with the weights is found while they are read for writing.
        wrong = next((cause for _, (cause, _) in error.failures.items() if isinstance(cause, UserError)), None)
        raise wrong or write_failure(destination, error) from error
