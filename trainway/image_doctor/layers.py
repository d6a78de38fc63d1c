"""Read the layers of an image: archives of tar, as they are or compressed by gzip or zstd."""

from __future__ import annotations

import io
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from trainway.image_doctor.files import LayerEntry

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class UnreadableLayerError(Exception):
    """A layer that cannot be read, and why in a sentence."""


def entries_of(layer: Any) -> Iterator[LayerEntry]:
    """Yield the files and links of a layer, which is a file or an HTTP response.

    Raises UnreadableLayerError for a damaged layer, and if it needs a program zstd that is not there.
    """
    buffered = io.BufferedReader(layer)
    begins = buffered.peek(4)[:4]
    try:
        if begins.startswith(_ZSTD):
            with _decompressed(buffered) as plain:
                yield from _members(plain, "r|")
        else:
            yield from _members(buffered, "r|gz" if begins.startswith(_GZIP) else "r|")
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UnreadableLayerError(f"it is damaged: {error}") from None


def _members(stream: IO[bytes], mode: str) -> Iterator[LayerEntry]:
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]  # the mode is a variable
        for member in archive:
            path = posixpath.normpath(f"/{member.name}")
            if member.issym():
                yield LayerEntry(path, link=member.linkname)
            elif member.islnk():
                yield LayerEntry(path, link=posixpath.normpath(f"/{member.linkname}"))
            else:
                yield LayerEntry(path, content=archive.extractfile(member) if member.isreg() else None)


@contextmanager
def _decompressed(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Decompress a stream by the program zstd, because Python has no zstd before 3.14."""
    if shutil.which("zstd") is None:
        raise UnreadableLayerError("it is compressed by zstd, and this machine has no program zstd")
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(stream, kept)
        kept.seek(0)
        command = ["zstd", "-dcq"]
        with subprocess.Popen(command, stdin=kept, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout is not None
            try:
                yield running.stdout
            finally:
                running.terminate()
