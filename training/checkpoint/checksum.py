"""A checksum behind every tensor of a checkpoint, compared by whoever reads the tensor.

It is an extension of torch.distributed.checkpoint, a transformation of what is written, and so as good for ranks that
read parts of many files as for those that read one whole. The checksum is the CRC-32 of zlib, at some GB/s on one
core: it is to find damage, not forgery.
"""

import io
import zlib
from typing import IO, Self

from torch.distributed.checkpoint._extension import StreamTransformExtension
from typing_extensions import Buffer

BYTES = 4


class Checksum(StreamTransformExtension):
    """Appends the checksum on writing; compares it and takes it away on reading."""

    @staticmethod
    def registry_name() -> str:
        """The name that `.metadata` keeps with every tensor."""
        return "crc32@trainway"

    @classmethod
    def from_descriptor(cls, version: str) -> Self:
        """The extension of a descriptor."""
        if version != "1":
            raise ValueError(f"checksums of version {version} are not known, only 1")
        return cls()

    def get_descriptor(self) -> str:
        """Return the name and version of this transformation of streams."""
        return f"{self.registry_name()}/1"

    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        """A stream whose content goes to `output`, and its checksum when it is closed."""
        return _Summing(output)  # type: ignore[return-value]

    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        """The content of `input` without its checksum.

        Raises:
            OSError: the checksum is another; the message names the file.
        """
        content = input.read()
        found, expected = crc32(memoryview(content)[:-BYTES]), content[-BYTES:].hex()
        if found != expected:
            raise OSError(f"{_name(input)}: the checksum of its content is {found}, {expected} was written")
        return io.BytesIO(content[:-BYTES])


def crc32(content: Buffer) -> str:
    """The checksum of some bytes, as eight hexadecimal digits."""
    return f"{zlib.crc32(content):08x}"


class _Summing(io.RawIOBase):
    def __init__(self, output: IO[bytes]) -> None:
        self._output, self._sum = output, 0

    def writable(self) -> bool:
        return True

    def write(self, content: Buffer) -> int:
        self._sum = zlib.crc32(content, self._sum)
        self._output.write(content)
        return memoryview(content).nbytes

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._output.write(self._sum.to_bytes(BYTES))
            self._output.close()


def _name(view: IO[bytes]) -> str:
    """Return the name of the file that a tensor is read from; a file calls it name, an object of S3 key."""
    file = getattr(view, "base_stream", view)
    return str(getattr(file, "key", getattr(file, "name", "a file")))
