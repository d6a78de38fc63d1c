"""Give each rank its tokens at each step.

The order is a function of the job's global sample counter. This number is therefore the whole state of the data, and
the global batch of a step is the same for every world size.
"""

import itertools
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.data.blend import Blend
from training.data.buffers import Buffers
from training.data.cache import Cache
from training.data.mapped_shard import MappedShard
from training.data.permutation import Permutation
from training.data.shards import Index, Shard, check_shards
from training.errors import UserError
from training.hosts import location_files

SAMPLES_AT_ONCE = 4096
"""Number of samples whose addresses a rank finds at a time.

Shuffling one costs nearly as much as shuffling all of them.
"""

TOKENS_AT_ONCE = 2**21
"""Number of tokens that a rank reads at a time (4 or 8 MiB), so that each handover to training costs little."""

STEPS_AT_ONCE = 256
"""Largest number of steps that a rank reads at a time, so that a job with small batches does not read all its data."""

READS_AHEAD = 2
"""Number of such reads that are queued before they are needed, so that the thread is never idle."""

TOKENS_OF_A_COPY = 2**18
"""Number of tokens that are copied at a time. They are still in the processor's cache for the next copy."""

FETCHES_AT_ONCE = 4
"""Number of shards that a rank fetches from S3 at the same time. Each fetch is several requests in parallel."""


SampleAddresses = NDArray[np.int64]
"""Addresses of samples, one row each. The meaning of the columns is private to their `Readable`."""

Tokens = NDArray[np.uint16 | np.uint32]
"""Tokens in the type that their shards have."""


class Readable(Protocol):
    """Samples in an endless order, of [sequence_length + 1] tokens each."""

    tokens_of_a_sample: int
    dtype: np.dtype[np.uint16 | np.uint32]

    def locate(self, counters: NDArray[np.int64]) -> SampleAddresses:
        """Return the addresses of the samples at these values of the counter, without reading anything."""
        ...

    def gather(self, addresses: SampleAddresses, into: Tokens, rows: NDArray[np.int64]) -> None:
        """Write the sample at each address into its row of `into`, [any, tokens_of_a_sample]. `rows` gives the rows."""
        ...

    def close(self) -> None:
        """Stop fetching shards."""
        ...


def read(samples: Readable, counters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the samples at these values of the counter: int64 [len(counters), sequence_length + 1]."""
    tokens = np.empty((len(counters), samples.tokens_of_a_sample), samples.dtype)
    samples.gather(samples.locate(counters), tokens, np.arange(len(counters)))
    return tokens.astype(np.int64)


class _Window(NamedTuple):
    """Shards whose samples are shuffled together, and where each shard's samples end in the window."""

    shards: NDArray[np.int64]
    ends: NDArray[np.int64]


class Samples:
    """The samples of a set of shards, in the shuffled order of every epoch.

    An epoch takes the shards in a shuffled order, `window` at a time, and shuffles the samples within a window. A host
    therefore holds two windows at most: the one that is read, and the next one, which is fetched meanwhile. Two
    threads must not read at once.

    What is read of a shard is verified, see `MappedShard`.

    Raises:
        UserError: a shard is missing, all are too short, or the cache cannot hold two windows.
    """

    def __init__(
        self, location: str, index: Index, sequence_length: int, seed: int, window: int, cache: Cache | None = None
    ) -> None:
        check_shards(location, index)
        self._location, self._index, self._cache = location, index, cache
        self.tokens_of_a_sample, self.dtype = sequence_length + 1, np.dtype(index.dtype)
        self._length, self._seed, self._window = sequence_length, seed, window
        # A sample and the token after it, which is the target of its last token, are in one shard.
        self._counts = np.array([(shard.tokens - 1) // sequence_length for shard in index.shards], dtype=np.int64)
        self.count = int(self._counts.sum())
        if self.count == 0:
            raise UserError(
                f"{location}: its {index.tokens} tokens are not one sample of data.sequence_length {sequence_length}; "
                "use a shorter sequence or more text"
            )
        if cache and cache.limit_bytes is not None:
            largest = sorted((shard.bytes for shard in index.shards), reverse=True)[: 2 * window]
            if sum(largest) > cache.limit_bytes:
                raise UserError(
                    f"data.cache_gib is {cache.limit_bytes / 2**30:g}, but the {len(largest)} shards of {location} "
                    f"that are in use at once (twice data.shuffle_shards) take {sum(largest) / 2**30:.3g} GiB; "
                    "raise data.cache_gib or lower data.shuffle_shards"
                )
        self._windows: dict[int, list[_Window]] = {}
        self._wanted: tuple[int, int] | None = None
        self._opened: dict[int, Future[MappedShard]] = {}
        self._threads = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="shards")

    def locate(self, counters: NDArray[np.int64]) -> SampleAddresses:
        """Return epoch, window, shard, and number within the shard for each sample."""
        addresses = np.empty((len(counters), 4), dtype=np.int64)
        addresses[:, 0], positions = np.divmod(counters, self.count)
        for epoch in np.unique(addresses[:, 0]).tolist():
            windows = self._epoch(epoch)
            ends = np.cumsum([window.ends[-1] for window in windows])
            of_epoch = np.flatnonzero(addresses[:, 0] == epoch)
            addresses[of_epoch, 1] = np.searchsorted(ends, positions[of_epoch], side="right")
            for number in np.unique(addresses[of_epoch, 1]).tolist():
                rows, window = of_epoch[addresses[of_epoch, 1] == number], windows[number]
                size = int(window.ends[-1])
                shuffle = Permutation(size, (self._seed, epoch, number))
                samples = shuffle(positions[rows] - (ends[number] - size))
                within = np.searchsorted(window.ends, samples, side="right")
                addresses[rows, 2] = window.shards[within]
                addresses[rows, 3] = samples - (window.ends[within] - self._counts[window.shards[within]])
        return addresses

    def gather(self, addresses: SampleAddresses, into: Tokens, rows: NDArray[np.int64]) -> None:
        """Write the sample at each address into its row of `into`, [any, tokens_of_a_sample]. `rows` gives the rows."""
        at_once = max(1, TOKENS_OF_A_COPY // self.tokens_of_a_sample)
        # Go shard by shard, in the order in which they are needed, to spend few steps in Python.
        order = np.lexsort(addresses[:, 2::-1].T)
        changes = (np.diff(addresses[order, :3], axis=0) != 0).any(axis=1)
        for of_shard in np.split(order, np.flatnonzero(changes) + 1):
            epoch, window, shard = addresses[of_shard[0], :3].tolist()
            self._want(epoch, window)
            mapped = self._opened[shard].result()
            for first in range(0, len(of_shard), at_once):
                some = of_shard[first : first + at_once]
                into[rows[some]] = mapped.read(addresses[some, 3])

    def close(self) -> None:
        """Stop fetching shards."""
        self._threads.shutdown(cancel_futures=True)

    def _epoch(self, epoch: int) -> list[_Window]:
        """Return the windows of an epoch, in order. Windows without a sample are left out."""
        if epoch not in self._windows:
            order = Permutation(len(self._counts), (self._seed, epoch))(np.arange(len(self._counts)))
            parts = [order[first : first + self._window] for first in range(0, len(order), self._window)]
            windows = [_Window(part, np.cumsum(self._counts[part])) for part in parts]
            for old in [old for old in self._windows if old < epoch - 1]:
                del self._windows[old]
            self._windows[epoch] = [window for window in windows if window.ends[-1]]
        return self._windows[epoch]

    def _want(self, epoch: int, window_number: int) -> None:
        """Open the shards of a window, begin to fetch those of the next one, and release all others."""
        if (epoch, window_number) == self._wanted:
            return
        self._wanted = (epoch, window_number)
        windows = self._epoch(epoch)
        following = windows[window_number + 1] if window_number + 1 < len(windows) else self._epoch(epoch + 1)[0]
        wanted = [*windows[window_number].shards.tolist(), *following.shards.tolist()]
        for number in wanted:
            if number not in self._opened and self._counts[number]:
                self._opened[number] = self._threads.submit(self._open, self._index.shards[number])
        for number in self._opened.keys() - set(wanted):
            self._opened.pop(number).cancel()

    def _open(self, shard: Shard) -> MappedShard:
        if not self._cache:
            return MappedShard(self._location, shard, self._index, self._length)
        with self._cache.holding(location_files.join(self._location, shard.name), shard) as path:
            return MappedShard(self._location, shard, self._index, self._length, cached=path)


class Blended:
    """Samples of several sources. Each source has its share of every thousand samples."""

    def __init__(self, sources: Sequence[Samples], weights: Sequence[float], seed: int) -> None:
        self._sources = sources
        self.tokens_of_a_sample = sources[0].tokens_of_a_sample
        self.dtype = np.result_type(*(source.dtype for source in sources))
        self._blend = Blend(weights, seed)

    def locate(self, counters: NDArray[np.int64]) -> SampleAddresses:
        """Return for each sample its source and its address in that source."""
        sources, own = self._blend(counters)
        addresses = np.empty((len(counters), 5), dtype=np.int64)
        addresses[:, 0] = sources
        for number, source in enumerate(self._sources):
            addresses[sources == number, 1:] = source.locate(own[sources == number])
        return addresses

    def gather(self, addresses: SampleAddresses, into: Tokens, rows: NDArray[np.int64]) -> None:
        """Write the sample at each address into its row of `into`, [any, tokens_of_a_sample]. `rows` gives the rows."""
        for number in np.unique(addresses[:, 0]).tolist():
            of_source = addresses[:, 0] == number
            self._sources[number].gather(addresses[of_source, 1:], into, rows[of_source])

    def close(self) -> None:
        """Stop fetching shards."""
        for source in self._sources:
            source.close()


def rank_batches(
    samples: Readable, first: int, global_batch: int, rank: int, world_size: int, pin: bool
) -> Generator[Tensor]:
    """Yield the rank's part of every step's batch, from the sample counter `first` on: [samples, sequence + 1].

    Tokens keep the type of their shards, 2 or 4 bytes. The consumer widens them on its device before it indexes with
    them.

    One thread reads ahead, several steps at a time. Worker processes would cost more than reading a memory map does.
    """
    share = global_batch // world_size
    of_a_step = np.arange(share, dtype=np.int64) + rank * share

    def addresses() -> Iterator[SampleAddresses]:
        """Yield the addresses of the rank's samples, several steps at a time: [samples, columns]."""
        steps = max(1, SAMPLES_AT_ONCE // share)
        for counter in itertools.count(first, steps * global_batch):
            counters = counter + global_batch * np.arange(steps, dtype=np.int64)[:, None] + of_a_step
            yield samples.locate(counters.ravel())

    located = addresses()
    unread = next(located)

    def read_ahead(steps: int, buffers: Buffers) -> Tensor:
        nonlocal unread
        while len(unread) < steps * share:
            unread = np.concatenate((unread, next(located)))
        some, unread = unread[: steps * share], unread[steps * share :]
        tokens = buffers.lend()
        samples.gather(some, tokens.numpy(), np.arange(len(some)))
        tokens = tokens.view(steps, share, -1)
        return tokens.pin_memory() if pin else tokens

    reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="data")

    def of_steps(steps: int) -> Buffers:
        return Buffers((steps * share, samples.tokens_of_a_sample), samples.dtype)

    some_steps = min(STEPS_AT_ONCE, max(1, TOKENS_AT_ONCE // (share * samples.tokens_of_a_sample)))
    buffers = of_steps(some_steps)
    # Read the first step alone, so that training does not wait for the steps after it.
    ahead = deque([reader.submit(read_ahead, 1, of_steps(1))])
    try:
        while True:
            ready = ahead.popleft().result()
            while len(ahead) < READS_AHEAD:
                ahead.append(reader.submit(read_ahead, some_steps, buffers))
            # An iterator over a tensor creates the tensors of all steps before it yields the first one.
            for step in range(len(ready)):
                yield ready[step]
    finally:
        reader.shutdown(cancel_futures=True)
