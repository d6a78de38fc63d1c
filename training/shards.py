"""Token shards: raw little-endian tokens in `.bin` files, and an `index.json` that describes them.

The index is written last, so its presence says that the data is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training import storage
from training.errors import UserError

INDEX = "index.json"


class File(BaseModel):
    """A file beside the index, and how to recognise it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bytes: int = Field(ge=0)
    sha256: str


class Shard(File):
    """One file of tokens, of whole documents."""

    tokens: int = Field(ge=1)
    documents: int = Field(ge=1)


class Index(BaseModel):
    """What is known about a set of shards without reading them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    dtype: Literal["uint16", "uint32"]
    vocabulary: int = Field(ge=1, description="Tokens are below this.")
    end_of_text: int = Field(description="The token after every document.")
    tokenizer: File = Field(description="What made the tokens, in the format of the tokenizers library.")
    recipe: str = Field(description="Digest of the text and the options; the same recipe gives the same shards.")
    source: str = Field(description="The text, and its licence where that is known.")
    shards: tuple[Shard, ...]

    @property
    def tokens(self) -> int:
        """Tokens of all shards."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def digest(self) -> str:
        """Identifies the tokens and their order."""
        return hashlib.sha256(" ".join(shard.sha256 for shard in self.shards).encode()).hexdigest()


def read_index(location: str) -> Index:
    """The index of the shards at a resolved location.

    Raises:
        UserError: there is none, or it is not one.
    """
    content = storage.read(storage.join(location, INDEX))
    if content is None:
        raise UserError(
            f"{location}: there are no token shards here ({INDEX} is missing). "
            f"Make them with `python -m training.prepare --corpus python-stdlib --out {location}`"
        )
    try:
        return Index.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise UserError(f"{location}/{INDEX}: {key}: {problem['msg']}. Prepare the data again") from error


def write_index(location: str, index: Index) -> None:
    """Completes the shards at a resolved location."""
    storage.write(storage.join(location, INDEX), index.model_dump_json(indent=2).encode())


def open_shard(location: str, index: Index, shard: Shard, cache: Path) -> NDArray[np.uint16 | np.uint32]:
    """The tokens of one shard, memory-mapped: in place on a file system, through the host's cache from S3.

    Raises:
        UserError: the shard is missing or is not what the index says.
    """
    source = storage.join(location, shard.name)
    path = _fetched(source, shard, cache) if storage.is_s3(location) else Path(source)
    found = path.stat().st_size if path.is_file() else None
    if found != shard.bytes:
        raise UserError(
            f"{path}: the index says {shard.bytes} bytes, found {'no file' if found is None else f'{found} bytes'}. "
            "Prepare the data again"
        )
    return np.memmap(path, dtype=np.dtype(index.dtype).newbyteorder("<"), mode="r")


def _fetched(source: str, shard: Shard, cache: Path) -> Path:
    """The shard's file in the cache, fetched whole by the first process of this host that wants it.

    It is named by its digest: data that was prepared again never meets an older copy of itself.
    """
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{shard.sha256}.bin"
    with (cache / f"{shard.sha256}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_file() and path.stat().st_size == shard.bytes:
            return path
        unfinished = cache / f"{shard.sha256}.{os.getpid()}"
        storage.download(source, unfinished)
        if not storage.holds(str(unfinished), shard.bytes, shard.sha256):
            unfinished.unlink()
            raise UserError(f"{source}: its content is not what the index says. Prepare the data again")
        unfinished.replace(path)
    return path
