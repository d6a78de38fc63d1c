"""Checksums of the blocks of a token shard, which verify parts of it without reading the whole shard.

Lustre does not verify what its disks return. Its client verifies transfers only, and ldiskfs keeps no checksums:
https://www.yumpu.com/en/document/view/26549590/lustre-16-operations-manual/361 (read 2026-11-29).

The checksum is the CRC-32 of zlib, as in checkpoints. It detects damage, not forgery. The checksums of a shard are
little-endian numbers of 4 bytes in a file beside the shard, because an index with all of them would be too large for
each rank to read.
"""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 2**14
"""Size of a block in bytes, except for the last one of a shard. The checksums take 4 bytes of every such block.

It is about the size of a sample, so a rank that reads one sample of many reads little beside it. A page fault of a
memory map reads more by itself: a cluster of pages, on Lustre up to 1 MiB, for example:
https://jira.whamcloud.com/si/jira.issueviews:issue-html/LUDOC-485/LUDOC-485.html (read 2026-11-29).
"""

_STORED = np.dtype("<u4")


def checksums_of(content: bytes, block_bytes: int = BLOCK_BYTES) -> bytes:
    """Return the checksums of the blocks of a shard, as they are stored."""
    view = memoryview(content)
    return _checksums(view, range(-(-len(view) // block_bytes)), block_bytes).tobytes()


class Blocks:
    """The blocks of a shard's content, each of which is verified once."""

    def __init__(self, content: memoryview, checksums: bytes, block_bytes: int) -> None:
        self._content, self._block_bytes = content, block_bytes
        self._expected = np.frombuffer(checksums, _STORED)
        self._unverified = np.ones(len(self._expected), dtype=bool)
        self._left = len(self._expected)

    def first_damaged(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[range, str, str] | None:
        """Verify the blocks that hold the bytes from each of `begins` to before the same one of `ends`.

        Returns the bytes of the first block that is damaged, with its expected and its found checksum as hexadecimal
        digits, or None if all blocks are sound.
        """
        if not self._left:
            return None
        first, last = begins // self._block_bytes, (ends - 1) // self._block_bytes
        blocks = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None])
        # Blocks are marked instead of sorted, because neighboring samples share them.
        wanted = np.zeros_like(self._unverified)
        wanted[blocks] = True
        numbers = np.flatnonzero(wanted & self._unverified)
        found = _checksums(self._content, numbers.tolist(), self._block_bytes)
        damaged = np.flatnonzero(found != self._expected[numbers])
        if len(damaged):
            block = int(numbers[damaged[0]])
            begin = block * self._block_bytes
            span = range(begin, min(begin + self._block_bytes, len(self._content)))
            return span, f"{self._expected[block]:08x}", f"{found[damaged[0]]:08x}"
        self._unverified[numbers] = False
        self._left -= len(numbers)
        return None


def _checksums(content: memoryview, blocks: Sequence[int], block_bytes: int) -> NDArray[np.uint32]:
    begins = (block * block_bytes for block in blocks)
    return np.fromiter((zlib.crc32(content[begin : begin + block_bytes]) for begin in begins), _STORED, len(blocks))
