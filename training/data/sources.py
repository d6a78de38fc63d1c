"""Open the data of a job file: the training samples, the held-out samples, and the identity of both."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.config import Job
from training.data.batches import Blended, Readable, Samples
from training.data.cache import Cache
from training.data.permutation import ORDER_VERSION
from training.data.shards import Index, read_index
from training.errors import UserError
from training.hosts import location_files
from training.hosts.locations import resolve


@dataclass(frozen=True)
class Sources:
    """A job's data, before the first sample is read."""

    samples: Readable
    """Samples that the model is trained on."""
    held_out: Samples | None
    """Samples that the model is evaluated on. None without evaluation."""
    index: Index
    """Index of data.train. All sources have its vocabulary and its end of text."""
    identity: Any
    """Values that must not change between a save and a resume, serializable as JSON."""


def open_sources(job: Job) -> Sources:
    """Open the token shards of a job.

    Raises:
        UserError: data is missing, is too short, or the sources have different tokenizers.
    """
    locations = {location: resolve(location) for location in job.data.shares}
    indexes = {location: read_index(resolved) for location, resolved in locations.items()}
    for location, other in indexes.items():
        _warn_of_missing_checksums(location, locations[location], other)
    index = indexes[job.data.train]
    for location, other in indexes.items():
        if other.tokenizer.sha256 != index.tokenizer.sha256:
            raise UserError(
                f"data.blend: {location} was made with another tokenizer than data.train {job.data.train}. Prepare it "
                f"with `python -m training.prepare --tokenizer {locations[job.data.train]}/{index.tokenizer.name} …`"
            )
    training, evaluation = _split(index, job)
    parts = {**indexes, job.data.train: training}
    opened = [_samples(job, locations[location], part) for location, part in parts.items()]
    return Sources(
        samples=opened[0] if len(opened) == 1 else Blended(opened, list(job.data.shares.values()), job.seed),
        held_out=_samples(job, locations[job.data.train], evaluation) if evaluation else None,
        index=index,
        identity={
            "order": ORDER_VERSION,
            "shards": [part.digest for part in parts.values()],
            "shares": list(job.data.shares.values()),
            "shuffle_shards": job.data.shuffle_shards,
        },
    )


def _warn_of_missing_checksums(location: str, resolved: str, index: Index) -> None:
    missing = sum(shard.checksums is None for shard in index.shards)
    if missing and os.environ.get("RANK", "0") == "0":
        print(
            f"warning: {location}: {missing} of {len(index.shards)} shards have no checksums of their blocks, so the "
            "run does not notice a damaged token that is in the vocabulary. Add the checksums with "
            f"`python -m training.prepare --add-checksums --out {resolved}`",
            file=sys.stderr,
            flush=True,
        )


def _split(index: Index, job: Job) -> tuple[Index, Index | None]:
    """Return the index of the shards for training, and that of the held-out shards or None."""
    held_out = job.evaluation.shards
    if not held_out:
        return index, None
    if held_out >= len(index.shards):
        raise UserError(
            f"evaluation.shards is {held_out}, but {job.data.train} has {len(index.shards)} shards, which leaves "
            "none to train on; hold out fewer, or prepare the data with a smaller --shard-bytes"
        )
    return (
        index.model_copy(update={"shards": index.shards[:-held_out]}),
        index.model_copy(update={"shards": index.shards[-held_out:]}),
    )


def _samples(job: Job, location: str, index: Index) -> Samples:
    cache = None
    if location_files.is_s3(location) or location.rstrip("/") in os.environ.get("TRAINWAY_STREAMED", "").split(":"):
        # A streamed file is fetched anew by each process that reads it, a few pages at a time.
        cache = Cache(cache_directory(job), None if job.data.cache_gib is None else int(job.data.cache_gib * 2**30))
    return Samples(location, index, job.data.sequence_length, job.seed, job.data.shuffle_shards, cache)


def cache_directory(job: Job) -> Path:
    """Return the directory on this host in which shards from S3, or from a streamed channel, are cached."""
    if job.data.cache:
        return Path(job.data.cache)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainway" / "shards"
