"""Checkpoints of model, optimizer and progress with torch.distributed.checkpoint, on a file system or in S3.

A checkpoint is the directory `step-00000042` below the job's checkpoint location. PyTorch writes its `.metadata` last:
a directory without one is an interrupted save, and is never resumed from. Parameters and their optimizer state go by
name, so a checkpoint can be loaded with another number of ranks.
"""

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from training import storage
from training.errors import UserError
from training.model import Decoder

COMMIT = ".metadata"
_NAME = re.compile(r"step-(\d{8})/")


@dataclass(frozen=True)
class Progress:
    """How far a run is: enough to go on exactly."""

    step: int
    """Optimizer steps done."""
    samples: int
    """Samples seen by all ranks; the whole state of the data."""
    loss: float
    """Loss of the last step."""
    loss_scale: float = 1.0
    """The factor on the loss of the next step; 1 but in fp16."""


def place(location: str, step: int) -> str:
    """The resolved location of a step's checkpoint."""
    return storage.join(location, f"step-{step:08d}")


def save(
    location: str, model: Decoder, optimizer: torch.optim.Optimizer, progress: Progress, identity: dict[str, Any]
) -> None:
    """Writes the checkpoint of `progress.step`; complete when this returns. Called by every rank.

    `identity` is what may not change between a save and a resume.
    """
    weights, moments = get_state_dict(model, optimizer)
    run = asdict(progress) | {"identity": json.dumps(identity, sort_keys=True)}
    state = {"model": weights, "optimizer": moments, "run": run}
    state_dict_saver.save(state, storage_writer=_writer(place(location, progress.step)))


def newest(location: str) -> int | None:
    """The step of the newest complete checkpoint, or None. Found by rank 0, the same on every rank."""
    found: list[int | UserError | None] = [None]
    if dist.get_rank() == 0:
        try:
            found = [max(_complete(storage.list_files(location)), default=None)]
        except UserError as error:
            found = [error]
    dist.broadcast_object_list(found, src=0)
    if isinstance(found[0], UserError):
        raise found[0]
    return found[0]


def load(
    location: str, step: int, model: Decoder, optimizer: torch.optim.Optimizer, identity: dict[str, Any]
) -> Progress:
    """Fills the model and the optimizer from a checkpoint. Called by every rank.

    Raises:
        UserError: the checkpoint is of another run; the message says in what they differ.
    """
    source = place(location, step)
    # First what is small: tensors of another model would fail to load with a less helpful error.
    run: dict[str, Any] = asdict(Progress(0, 0, 0.0)) | {"identity": ""}
    state_dict_loader.load({"run": run}, storage_reader=_reader(source))
    saved = json.loads(run.pop("identity"))
    different = [f"{key} was {saved.get(key)}, is {now}" for key, now in identity.items() if saved.get(key) != now]
    if different:
        raise UserError(
            f"{source} is a checkpoint of another run: {'; '.join(different)}. "
            "Give the job another name or checkpoint.location, or delete the old checkpoints"
        )
    # PyTorch fills only the keys that it is given, so the state has to exist before it is loaded.
    weights, moments = get_state_dict(model, optimizer)
    state_dict_loader.load({"model": weights, "optimizer": moments}, storage_reader=_reader(source))
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    return Progress(**run)


def prune(location: str, keep: int) -> None:
    """Deletes all but the newest `keep` complete checkpoints, and what interrupted saves before them left. Rank 0."""
    files = storage.list_files(location)
    kept = sorted(_complete(files))[-keep:]
    for step in sorted({int(match[1]) for file in files if (match := _NAME.match(file))}):
        if step in kept or not kept or step > kept[-1]:
            continue
        names = [file.removeprefix(prefix) for file in files if file.startswith(prefix := f"step-{step:08d}/")]
        # The commit goes first, so that a deletion cut short does not leave half a checkpoint that looks complete.
        storage.delete(place(location, step), sorted(names, key=lambda name: name != COMMIT))


def _complete(files: list[str]) -> list[int]:
    return [int(match[1]) for file in files if (match := _NAME.match(file)) and file[match.end() :] == COMMIT]


def _writer(destination: str) -> FileSystemWriter:
    if not storage.is_s3(destination):
        return FileSystemWriter(destination)
    from s3torchconnector.dcp import S3StorageWriter
    from s3torchconnector.dcp.s3_prefix_strategy import RoundRobinPrefixStrategy

    # Below the checkpoint, so that on a file system it is one directory, whoever wrote it.
    prefixes = [f"p{number:03d}" for number in range(_layout().get("prefixes", 1))]
    strategy = RoundRobinPrefixStrategy(prefixes) if len(prefixes) > 1 else None
    return S3StorageWriter(**_s3_options(destination), prefix_strategy=strategy)


def _reader(source: str) -> FileSystemReader:
    if not storage.is_s3(source):
        return FileSystemReader(source)
    from s3torchconnector.dcp import S3StorageReader

    return S3StorageReader(**_s3_options(source))


def _s3_options(location: str) -> dict[str, Any]:
    """Arguments of the S3 connector. It takes credentials from where boto3 does, but not the region and endpoint."""
    from s3torchconnector import S3ClientConfig

    client = storage.s3_client()
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    if endpoint:
        # The connector reads only the general variable; this process talks to no other service.
        os.environ["AWS_ENDPOINT_URL"] = endpoint
    layout, usual = _layout(), S3ClientConfig()
    settings = S3ClientConfig(
        # Buckets of an emulated S3 are a path of its endpoint and not names in a domain.
        force_path_style="AWS_ENDPOINT_URL" in os.environ,
        part_size=layout.get("part_bytes", usual.part_size),
        throughput_target_gbps=layout.get("gbps_each", usual.throughput_target_gbps),
    )
    return {"region": client.meta.region_name, "path": location, "s3client_config": settings}


def _layout() -> dict[str, int]:
    """How the platform wants checkpoints written to S3, which the launcher knows: prefixes, part_bytes, gbps_each.

    It puts that in the environment variable TRAINWAY_CHECKPOINTS, as a JSON object. With so many prefixes S3 answers
    all ranks at once: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
    (read 2026-11-21)
    """
    layout: dict[str, int] = json.loads(os.environ.get("TRAINWAY_CHECKPOINTS", "{}"))
    return layout
