"""Choose the source of each sample, so that each source has its share at every moment of a run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.data.permutation import Permutation

BLOCK = 1000
"""Number of samples in which every source has exactly its share. Shares are therefore multiples of a thousandth."""


class Blend:
    """Sources in proportion to `weights`, in an order determined by `seed`.

    Every source has a counter of its own, which is a function of the job's counter. No state of a source is stored, and
    a run resumes in the middle of all sources at once.
    """

    def __init__(self, weights: Sequence[float], seed: int) -> None:
        exact = np.asarray(weights) / sum(weights) * BLOCK
        shares = np.floor(exact).astype(np.int64)
        # Give the samples that rounding down left over to the sources that lost most by it.
        shares[np.argsort(shares - exact, kind="stable")[: BLOCK - shares.sum()]] += 1
        self._shares = shares
        self._seed = seed

    def __call__(self, counters: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each value of the job's counter the number of its source and that source's own counter."""
        blocks, offsets = np.divmod(counters, BLOCK)
        sources, own = np.empty_like(counters), np.empty_like(counters)
        for block in np.unique(blocks):
            rows = blocks == block
            order, earlier = self._block(int(block))
            sources[rows] = order[offsets[rows]]
            own[rows] = earlier[offsets[rows]] + block * self._shares[sources[rows]]
        return sources, own

    def _block(self, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source of each sample of a block, and how many samples of that source precede it in the block."""
        sources = np.repeat(np.arange(len(self._shares)), self._shares)
        order = sources[Permutation(BLOCK, (self._seed, block))(np.arange(BLOCK))]
        earlier = np.empty(BLOCK, dtype=np.int64)
        for source, share in enumerate(self._shares):
            earlier[order == source] = np.arange(share)
        return order, earlier
