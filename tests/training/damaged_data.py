"""Damage token shards, and read them whole."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from training.data.shards import read_index


def read_all(data: Path) -> None:
    """Read every sample of an epoch."""
    from training.data.batches import Samples, read

    samples = Samples(str(data), read_index(str(data)), 32, 0, 64)
    with closing(samples):
        read(samples, np.arange(samples.count))


def flip(path: Path, token: int, bit: int = 0) -> None:
    """Flip a bit of a token of 2 bytes, in the bytes of the file."""
    content = bytearray(path.read_bytes())
    content[2 * token] ^= 1 << bit
    path.write_bytes(content)
