"""Write the checksums of the blocks of shards, for new data and for data that was prepared without them."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from training.data.block_checksums import BLOCK_BYTES, checksums_of
from training.data.shards import PREPARE_AGAIN, BlockChecksums, Index, Shard, read_index, write_index
from training.errors import UserError
from training.hosts import location_files

SHARDS_AT_ONCE = 4
"""Largest number of shards in memory at the same time. Their digests are computed in parallel."""


def write_checksums(location: str, shard_name: str, content: bytes) -> BlockChecksums:
    """Write the checksums of a shard with this content beside it, and return the record for the index."""
    name = str(PurePosixPath(shard_name).with_suffix(".crc32"))
    checksums = checksums_of(content)
    location_files.write(location_files.join(location, name), checksums)
    return BlockChecksums(
        name=name, bytes=len(checksums), sha256=hashlib.sha256(checksums).hexdigest(), block_bytes=BLOCK_BYTES
    )


def add_checksums(location: str) -> Index:
    """Write the checksums that the data at a resolved location lacks, and return its new index.

    Each of these shards is read and compared with its digest. The index is written last. Runs can read the data
    meanwhile, and resume after it, because a checkpoint knows the data by the digests of its shards.

    Raises:
        UserError: there is no index, or a shard is missing or does not match it. The index is then as it was.
    """
    index = read_index(location)
    with ThreadPoolExecutor(min(SHARDS_AT_ONCE, os.cpu_count() or 1)) as threads:
        shards = tuple(threads.map(lambda shard: _with_checksums(location, shard), index.shards))
    completed = index.model_copy(update={"shards": shards})
    if completed != index:
        write_index(location, completed)
    return completed


def _with_checksums(location: str, shard: Shard) -> Shard:
    known = shard.checksums
    if known and location_files.holds(location_files.join(location, known.name), known.bytes, known.sha256):
        return shard
    path = location_files.join(location, shard.name)
    content = location_files.read(path)
    if content is None or len(content) != shard.bytes or hashlib.sha256(content).hexdigest() != shard.sha256:
        problem = "the file does not exist" if content is None else "the content does not match the index"
        raise UserError(f"{path}: {problem}. {PREPARE_AGAIN}")
    return shard.model_copy(update={"checksums": write_checksums(location, shard.name, content)})
