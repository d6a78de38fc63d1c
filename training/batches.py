"""Which tokens a rank sees at which step.

The order is a function of the job's global sample counter, so the whole state of the data is that one number, and the
global batch of a step is the same for every world size.
"""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.errors import UserError
from training.permutation import Permutation
from training.shards import Index, open_shard


class Samples:
    """The samples of a set of shards, in the shuffled order of every epoch."""

    def __init__(self, location: str, index: Index, sequence_length: int, seed: int, cache: Path) -> None:
        self._shards = [open_shard(location, index, shard, cache) for shard in index.shards]
        self._length = sequence_length
        self._seed = seed
        # A sample and the token after it, which its last token is to predict, are in one shard.
        counts = [(len(shard) - 1) // sequence_length for shard in self._shards]
        self._ends = np.cumsum(counts)
        self.count = sum(counts)
        if self.count == 0:
            raise UserError(
                f"{location}: its {index.tokens} tokens are not one sample of data.sequence_length {sequence_length}; "
                "use a shorter sequence or more text"
            )

    def read(self, counters: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at these values of the global counter: [len(counters), sequence_length + 1] tokens."""
        epochs, positions = np.divmod(counters, self.count)
        tokens = np.empty((len(counters), self._length + 1), dtype=np.int64)
        for epoch in np.unique(epochs):
            rows = epochs == epoch
            samples = Permutation(self.count, (self._seed, int(epoch)))(positions[rows])
            tokens[rows] = np.stack([self._sample(int(sample)) for sample in samples])
        return tokens

    def _sample(self, sample: int) -> NDArray[np.int64]:
        shard = int(np.searchsorted(self._ends, sample, side="right"))
        first = (sample - int(self._ends[shard - 1] if shard else 0)) * self._length
        return self._shards[shard][first : first + self._length + 1].astype(np.int64)


def rank_batches(
    samples: Samples, first: int, global_batch: int, rank: int, world_size: int, pin: bool
) -> Generator[Tensor]:
    """The rank's part of every step's batch, from the sample counter `first` on: int64, [samples, sequence + 1].

    One thread reads a step ahead. Workers in other processes would cost more than reading a memory map does.
    """
    share = global_batch // world_size

    def read(counter: int) -> Tensor:
        tokens = torch.from_numpy(samples.read(np.arange(share, dtype=np.int64) + counter + rank * share))
        return tokens.pin_memory() if pin else tokens

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="data") as reader:
        ahead = reader.submit(read, first)
        while True:
            ready = ahead.result()
            first += global_batch
            ahead = reader.submit(read, first)
            yield ready
