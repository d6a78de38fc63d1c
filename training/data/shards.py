"""Token shards: raw little-endian tokens in `.bin` files, and an `index.json` that describes them.

The index is written last, so its presence shows that the data is complete.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training.errors import UserError
from training.hosts import location_files

INDEX = "index.json"

PREPARE_AGAIN = (
    "Copy the file again from where it is sound, or repeat the `python -m training.prepare` command that made it. It "
    "writes only what is missing or damaged"
)
"""Remedy for a shard that is missing or damaged."""


class File(BaseModel):
    """A file beside the index, with the length and the digest that identify it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bytes: int = Field(ge=0)
    sha256: str


class BlockChecksums(File):
    """The file with the checksums of a shard's blocks."""

    block_bytes: int = Field(ge=1)


class Shard(File):
    """One file of tokens. It holds whole documents."""

    tokens: int = Field(ge=1)
    documents: int = Field(ge=1)
    checksums: BlockChecksums | None = Field(None, description="None for data that was prepared without them.")


class Index(BaseModel):
    """Description of a set of shards, which can be read without reading the shards."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    dtype: Literal["uint16", "uint32"]
    vocabulary: int = Field(ge=1, description="Tokens are below this.")
    end_of_text: int = Field(description="The token after every document.")
    tokenizer: File = Field(description="What made the tokens, in the format of the tokenizers library.")
    recipe: str = Field(description="Digest of the text's files, by name and length, and the options.")
    source: str = Field(description="The text, and its license where that is known.")
    shards: tuple[Shard, ...]

    @property
    def tokens(self) -> int:
        """Return the number of tokens in all shards."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def digest(self) -> str:
        """Return a digest that identifies the tokens and their order."""
        return hashlib.sha256(" ".join(shard.sha256 for shard in self.shards).encode()).hexdigest()


def read_index(location: str) -> Index:
    """Return the index of the shards at a resolved location.

    Raises:
        UserError: there is no index, or the file is not a valid one.
    """
    content = location_files.read(location_files.join(location, INDEX))
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
    """Write the index, which completes the shards at a resolved location."""
    location_files.write(location_files.join(location, INDEX), index.model_dump_json(indent=2).encode())


def check_shards(location: str, index: Index) -> None:
    """Check that every file of the index exists at the resolved location and has the expected length.

    Raises:
        UserError: a shard, or the file of its checksums, is missing or has another length.
    """
    found = location_files.list_sizes(location)
    for shard in index.shards:
        _check_size(location_files.join(location, shard.name), shard, found.get(shard.name), PREPARE_AGAIN)
        if shard.checksums:
            path = location_files.join(location, shard.checksums.name)
            _check_size(path, shard.checksums, found.get(shard.checksums.name), _add_again(location))


def read_checksums(location: str, checksums: BlockChecksums) -> bytes:
    """Return the content of a file of checksums at a resolved location.

    Raises:
        UserError: the file is missing, or does not match the index.
    """
    path = location_files.join(location, checksums.name)
    content = location_files.read(path)
    _check_size(path, checksums, None if content is None else len(content), _add_again(location))
    if content is None or hashlib.sha256(content).hexdigest() != checksums.sha256:
        raise UserError(f"{path}: its content does not match the index. {_add_again(location)}")
    return content


def map_shard(path: Path | str, shard: Shard, index: Index) -> NDArray[np.uint16 | np.uint32]:
    """Return the tokens of a shard's file, memory-mapped.

    Raises:
        UserError: the file is missing or has another length than the index says.
    """
    file = Path(path)
    # Linux ends a process by SIGBUS that reads a mapping behind the end of its file.
    _check_size(str(path), shard, file.stat().st_size if file.is_file() else None, PREPARE_AGAIN)
    return np.memmap(path, dtype=np.dtype(index.dtype).newbyteorder("<"), mode="r")


def _check_size(path: str, file: File, size: int | None, remedy: str) -> None:
    if size != file.bytes:
        found = "no file" if size is None else f"{size} bytes"
        raise UserError(f"{path}: the index says {file.bytes} bytes, found {found}. {remedy}")


def _add_again(location: str) -> str:
    return f"Copy the file again, or write it with `python -m training.prepare --add-checksums --out {location}`"
