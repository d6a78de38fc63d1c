"""A directory of transformers as the first checkpoint of a run, before any step of ours."""

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

from training.checkpoint import Progress, step_location
from training.checkpoint.agreement import first_reason
from training.checkpoint.stored import complete
from training.checkpoint.stores import writer
from training.data.tokenizer import load_tokenizer, vocabulary_of
from training.errors import UserError
from training.hugging_face.configuration import ModelFamily, read_config
from training.hugging_face.names import renaming
from training.model.decoder import Decoder
from training.model.presets import Shape

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = {"F64", "F32", "F16", "BF16"}
# Of Llama's rotary positions, which older versions kept and everyone computes.
COMPUTED = "rotary_emb.inv_freq"


class _Files:
    """The tensors of a directory, by name, read when they are asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file_of = self._weight_map()
        self.names = set(self._file_of)

    def path(self, name: str) -> Path:
        """The file that has a tensor."""
        return self._directory / self._file_of[name]

    def tensor(self, name: str) -> Tensor:
        """A tensor in fp32, as all our weights are."""
        tensor: Tensor = _open(self.path(name)).get_tensor(name)
        return tensor.float()

    def check(self, name: str, expected: list[int]) -> None:
        """Sees to it that a tensor is there in its shape; reads the beginning of its file only."""
        if name not in self.names:
            raise UserError(
                f"{self._directory}: no file has the tensor {name}, which a model of its config.json has with the "
                f"shape {expected}"
            )
        path = self.path(name)
        if name not in _open(path).keys():  # noqa: SIM118  # it is no mapping
            raise UserError(f"{path}: has no tensor {name}, but {INDEX} says so. Copy both again")
        tensor = _open(path).get_slice(name)
        if tensor.get_shape() != expected:
            raise UserError(f"{path}: {name} has the shape {tensor.get_shape()}; by config.json it is {expected}")
        if tensor.get_dtype() not in FLOATS:
            raise UserError(f"{path}: {name} is of {tensor.get_dtype()}; known are {', '.join(sorted(FLOATS))}")

    def _weight_map(self) -> dict[str, str]:
        """The file that each tensor is in."""
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
    """A file, mapped into memory; anew for each tensor, so that what was read of it does not stay there."""
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise UserError(f"{path}: is in {INDEX}, but not there. Copy it again") from error
    except SafetensorError as error:
        raise UserError(f"{path}: is not a whole file of safetensors: {error}. Copy it again") from error


class _Streamed(DefaultSavePlanner):
    """Saves a model of the meta device, whose tensors are read when they are written: one at a time is in memory."""

    def __init__(self, files: _Files, family: ModelFamily, shape: Shape) -> None:
        super().__init__()
        self._files, self._family, self._shape = files, family, shape

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What is to be written under a name."""
        known = super().lookup_object(index)
        if not isinstance(known, Tensor) or not known.is_meta:
            return known
        renamed = renaming(self._family, self._shape, index.fqn.removeprefix("model."))
        tensor = renamed.here([self._files.tensor(name) for name in renamed.names])
        # Of the rows for tokens, those that the tokenizer has.
        return tensor[: known.shape[0]].contiguous()


def import_(directory: Path, out: str) -> Shape:
    """Writes the weights of a directory as the checkpoint of step 0 at a resolved location. Returns their shape.

    Raises:
        UserError: the directory is not whole, or has a model that ours cannot be; or the location has a checkpoint.
    """
    family, shape, rows, length = read_config(directory / "config.json")
    tokenizer = directory / "tokenizer.json"
    if not tokenizer.is_file():
        raise UserError(
            f"{tokenizer}: is not there, and the data has to be made with it. Make it with transformers: "
            "`AutoTokenizer.from_pretrained(…).save_pretrained(…)`"
        )
    vocabulary = vocabulary_of(load_tokenizer(tokenizer))
    if vocabulary > rows:
        raise UserError(
            f"{directory}: tokenizer.json has {vocabulary} tokens, but config.json says that the weights are for "
            f"vocab_size {rows}; they do not belong together"
        )
    if complete(out):
        raise UserError(f"{out}: there is a checkpoint here already. Choose another --out, or delete it first")

    with torch.device("meta"):
        theirs, ours = (Decoder(shape, tokens).state_dict() for tokens in (rows, vocabulary))
    files = _Files(directory)
    unknown = {name for name in files.names if not name.endswith(COMPUTED)}
    if shape.tied:
        unknown.discard("lm_head.weight")
    for name, tensor in theirs.items():
        renamed = renaming(family, shape, name)
        unknown -= set(renamed.names)
        for their_name, part in zip(renamed.names, renamed.there(tensor), strict=True):
            files.check(their_name, list(part.shape))
    if unknown:
        first = min(unknown)
        raise UserError(f"{files.path(first)}: has the tensor {first}, which models of {family} here do not have")

    identity = {
        "model": asdict(shape) | {"vocabulary": vocabulary},
        "tokenizer": hashlib.sha256(tokenizer.read_bytes()).hexdigest(),
        "sequence_length": length,
    }
    run = asdict(Progress(step=0, samples=0, loss=float("nan"))) | {"identity": json.dumps(identity, sort_keys=True)}
    destination = step_location(out, 0)
    storage_writer = writer(destination)
    # A file a tensor: all in one, a large model would be more than S3 takes in 10,000 parts of the usual length.
    storage_writer.single_file_per_rank = False
    planner = _Streamed(files, family, shape)
    try:
        state_dict_saver.save({"model": ours, "run": run}, storage_writer=storage_writer, planner=planner)
    except CheckpointException as error:
        raise UserError(f"{destination}: the checkpoint cannot be written: {first_reason(error)}") from error
    if vocabulary < rows:
        left_out = f"{directory} has rows for {rows} tokens and a tokenizer of {vocabulary}; the others are left out"
        print(left_out, file=sys.stderr)
    return shape
