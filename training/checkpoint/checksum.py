"""A checksum behind every tensor of a checkpoint. Each reader of the tensor verifies it.

The checksum is an extension of torch.distributed.checkpoint that transforms the written stream. It therefore also works
for ranks that read parts of many files. It is the CRC-32 of zlib, at some GB/s on one core. It detects damage, not
forgery.
"""

import io
import zlib
from typing import IO, Self

from torch.distributed.checkpoint._extension import StreamTransformExtension
from typing_extensions import Buffer

BYTES = 4


class Checksum(StreamTransformExtension):
    """Append the checksum when a tensor is written, and verify and remove it when the tensor is read."""

    @staticmethod
    def registry_name() -> str:
        """Return the name that `.metadata` keeps with every tensor."""
        return "crc32@trainway"

    @classmethod
    def from_descriptor(cls, version: str) -> Self:
        """Return the extension that a descriptor names."""
        if version != "1":
            raise ValueError(f"checksums of version {version} are not known, only 1")
        return cls()

    def get_descriptor(self) -> str:
        """Return the name and version of this transformation of streams."""
        return f"{self.registry_name()}/1"

    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        """Return a stream that writes its content to `output`, and appends its checksum when it is closed."""
        return _Summing(output)  # type: ignore[return-value]

    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        """Return the content of `input` without its checksum.

        Raises:
            OSError: the checksum does not match. The message names the file.
        """
        content = input.read()
        found, expected = crc32(memoryview(content)[:-BYTES]), content[-BYTES:].hex()
        if found != expected:
            raise OSError(f"{_name(input)}: the checksum of its content is {found}, {expected} was written")
        return io.BytesIO(content[:-BYTES])


def crc32(content: Buffer) -> str:
    """Return the checksum of some bytes, as eight hexadecimal digits."""
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
    """Return the name of the file that a tensor is read from. A file calls it `name`, an S3 object `key`."""
    file = getattr(view, "base_stream", view)
    return str(getattr(file, "key", getattr(file, "name", "a file")))
