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


class File(BaseModel):
    """A file beside the index, with the length and the digest that identify it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bytes: int = Field(ge=0)
    sha256: str


class Shard(File):
    """One file of tokens. It holds whole documents."""

    tokens: int = Field(ge=1)
    documents: int = Field(ge=1)


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
    """Check that every shard of the index exists at the resolved location and has the expected length.

    Raises:
        UserError: a shard is missing or has another length.
    """
    found = location_files.list_sizes(location)
    for shard in index.shards:
        size = found.get(shard.name)
        if size != shard.bytes:
            raise UserError(
                f"{location_files.join(location, shard.name)}: the index says {shard.bytes} bytes, found "
                f"{'no file' if size is None else f'{size} bytes'}. Prepare the data again"
            )


def map_shard(path: Path | str, index: Index) -> NDArray[np.uint16 | np.uint32]:
    """Return the tokens of a shard's file, memory-mapped."""
    return np.memmap(path, dtype=np.dtype(index.dtype).newbyteorder("<"), mode="r")
