"""A cache of shards on a host's local disk, from S3 or a streamed channel.

Each host fetches a shard once, and deletes the least recently used first.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.data.shards import Shard
from training.errors import UserError
from training.hosts import location_files


@dataclass(frozen=True)
class Cache:
    """A directory that the ranks of a host share."""

    directory: Path
    limit_bytes: int | None = None
    """Largest total size of the shards. None means no limit."""

    @contextlib.contextmanager
    def holding(self, source: str, shard: Shard) -> Iterator[Path]:
        """Yield the file of a shard at `source`. Nobody deletes it before the context ends.

        The file is named by its digest, so newly prepared data never uses an older copy. A mapping made in the context
        stays valid after it, because Linux keeps a file that is mapped.

        Raises:
            UserError: the content of the shard does not match the index.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{shard.sha256}.bin"
        # One process of the host fetches a shard. The others wait here for it.
        with (self.directory / f"{shard.sha256}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file() or path.stat().st_size != shard.bytes:
                self._fetch(source, shard, path)
            os.utime(path)
            yield path

    def _fetch(self, source: str, shard: Shard, path: Path) -> None:
        # Fetch one shard at a time, with parallel requests. Two fetches at once would both count on the same free
        # space.
        with (self.directory / "room.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._make_room(shard.bytes)
            unfinished = path.with_suffix(".part")
            location_files.download(source, unfinished)
            if not location_files.holds(str(unfinished), shard.bytes, shard.sha256):
                unfinished.unlink()
                raise UserError(f"{source}: its content does not match the index. Prepare the data again")
            unfinished.replace(path)

    def _make_room(self, needed_bytes: int) -> None:
        """Delete the least recently used shards that no process is about to use."""
        if self.limit_bytes is None:
            return
        used: list[tuple[float, int, Path]] = []
        for path in self.directory.glob("*.bin"):
            # Another process may delete the file at the same moment.
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                used.append((status.st_mtime, status.st_size, path))
        excess = sum(size for _, size, _ in used) + needed_bytes - self.limit_bytes
        for _, size, path in sorted(used):
            if excess <= 0:
                return
            with path.with_suffix(".lock").open("w") as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                excess -= size
