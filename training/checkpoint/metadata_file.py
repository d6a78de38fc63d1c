"""The file `.metadata` of a checkpoint, with a checksum at its end, and read without executing anything.

torch.distributed.checkpoint writes this file as a pickle. A pickle can name any function of any module, and unpickling
calls it. This module therefore loads only the classes of a checkpoint's metadata. The checksum follows the pickle.
PyTorch's own reader ignores it there, so a checkpoint remains one of PyTorch's format.
"""

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from enum import EnumType
from typing import IO, Any

import torch
from torch.distributed.checkpoint.metadata import Metadata

from training.checkpoint.checksum import BYTES, crc32

COMMIT = ".metadata"
"""Name of the file. PyTorch writes it last, so it marks a checkpoint complete."""

SEAL = b"crc32@trainway/1"
"""The bytes between the pickle and its checksum. A file without them was written by PyTorch alone."""

# All classes that `.metadata` of PyTorch 2.11 and 2.13 names. Python 3.13 has another module for its paths.
_CLASSES = {
    "pathlib": {"PosixPath"},
    "pathlib._local": {"PosixPath"},
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
}


class SealingFileSystem:
    """A file system of torch.distributed.checkpoint that appends the seal and the checksum to files it writes."""

    def __init__(self, files: Any, sync: bool) -> None:
        self._files, self._sync = files, sync

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    @contextmanager
    def create_stream(self, path: Any, _: str) -> Iterator[io.BytesIO]:
        """Yield a stream whose content becomes the file when it is complete."""
        content = io.BytesIO()
        yield content
        with self._files.create_stream(path, "wb") as file:
            file.write(sealed(content.getvalue()))
            if self._sync:
                file.flush()
                os.fsync(file.fileno())


def sealed(content: bytes) -> bytes:
    """Return the bytes of a `.metadata` with the seal and the checksum behind them."""
    return content + SEAL + bytes.fromhex(crc32(content))


def load_metadata(file: IO[bytes]) -> Metadata:
    """Return the metadata of a checkpoint from an open `.metadata`. Verify the checksum before anything is unpickled.

    Raises:
        OSError: the checksum does not match.
        pickle.UnpicklingError: the file is no metadata of a checkpoint, for example because it names a class that
            metadata does not have.
    """
    content = file.read()
    pickled, seal, checksum = content[: -len(SEAL) - BYTES], content[-len(SEAL) - BYTES : -BYTES], content[-BYTES:]
    if seal == SEAL:
        if crc32(pickled) != checksum.hex():
            raise OSError(f"the checksum of its content is {crc32(pickled)}, {checksum.hex()} was written")
        content = pickled
    stream = io.BytesIO(content)
    metadata = _Unpickler(stream).load()
    if stream.tell() != len(content):
        raise pickle.UnpicklingError(f"{len(content) - stream.tell()} bytes follow its end")
    if not isinstance(metadata, Metadata):
        raise pickle.UnpicklingError(f"it holds a {type(metadata).__name__} and no metadata")
    return metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the metadata, a data type of PyTorch, or `_member` in the place of `getattr`."""
        if name in _CLASSES.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no checkpoint needs. It may be an attack")


def _member(enumeration: Any, name: Any) -> Any:
    """Return a member of an enumeration, and nothing else that an object has.

    Python 3.11.0 to 3.11.3 pickle a member as a call of `getattr`. Other versions call the enumeration's class.
    https://github.com/python/cpython/blob/v3.11.3/Lib/enum.py (read 2026-11-26)
    """
    if isinstance(enumeration, EnumType) and name in enumeration.__members__:
        return enumeration[name]
    raise pickle.UnpicklingError(f"it asks for {name} of {enumeration}, which no checkpoint needs. It may be an attack")
