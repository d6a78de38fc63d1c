"""A token shard that is mapped into memory. What is read of it is verified first."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.data.block_checksums import Blocks
from training.data.shards import PREPARE_AGAIN, Index, Shard, map_shard, read_checksums
from training.errors import UserError
from training.hosts import location_files


class MappedShard:
    """The samples of a shard of [sequence_length + 1] tokens. Consecutive samples share one token.

    `cached` is a copy of the shard on this host, which is read instead of the one at the resolved `location`.

    Raises:
        UserError: a file is missing, has another length, or is not the one of the index.
    """

    def __init__(
        self, location: str, shard: Shard, index: Index, sequence_length: int, cached: Path | None = None
    ) -> None:
        source = location_files.join(location, shard.name)
        self._name, self._remedy = source, PREPARE_AGAIN
        if cached:
            self._name, self._remedy = f"{cached}, the copy of {source}", "Delete this copy, and start the job again"
        tokens = map_shard(cached or source, shard, index)
        self._token_bytes, self._length, self._vocabulary = tokens.itemsize, sequence_length, index.vocabulary
        self._samples = np.lib.stride_tricks.sliding_window_view(tokens, sequence_length + 1)[::sequence_length]
        self._blocks = None
        if checksums := shard.checksums:
            self._blocks = Blocks(tokens.data.cast("B"), read_checksums(location, checksums), checksums.block_bytes)

    def read(self, numbers: NDArray[np.int64]) -> NDArray[np.uint16 | np.uint32]:
        """Return the samples with these numbers: [len(numbers), sequence_length + 1].

        Raises:
            UserError: a block of the shard is damaged, or a token is not in the vocabulary. The message says where.
        """
        if self._blocks:
            begins = numbers * (self._length * self._token_bytes)
            ends = begins + (self._length + 1) * self._token_bytes
            if damaged := self._blocks.first_damaged(begins, ends):
                span, expected, found = damaged
                tokens = span.start // self._token_bytes, span.stop // self._token_bytes - 1
                raise UserError(
                    f"{self._name}: the tokens {tokens[0]} to {tokens[1]} (bytes {span.start} to {span.stop - 1}) have "
                    f"the checksum {found}, but had {expected} when they were prepared. The file is damaged, or is "
                    f"another one. {self._remedy}"
                )
        samples = self._samples[numbers]
        # A token for which the model has no embedding is an IndexError on a CPU, and an assertion in a kernel on a GPU.
        if samples.max() >= self._vocabulary:
            row, column = np.argwhere(samples >= self._vocabulary)[0].tolist()
            position = int(numbers[row]) * self._length + column
            raise UserError(
                f"{self._name}: the token at position {position} is {samples[row, column]}, but the tokens of the "
                f"vocabulary are below {self._vocabulary}. The file is damaged, or is another one. {self._remedy}"
            )
        return samples
