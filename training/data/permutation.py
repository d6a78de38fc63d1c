"""A seeded shuffle of any number of samples that needs no memory and can start at any sample."""

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6

ORDER_VERSION = 1
"""Version of the order of samples. Raise it with every change of the permutation, the blend, or the windows of shards.

A checkpoint of another version is refused, because its run would see some samples twice and others never.
"""

# The multipliers and shifts of SplitMix64 (Steele, Lea & Flood 2014, doi 10.1145/2660193.2660195).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


class Permutation:
    """A bijection of 0 … size-1, determined by `seed`.

    It is a Feistel network over the bits that the size needs, repeated until the result is below the size (Black &
    Rogaway 2002, "Ciphers with arbitrary finite domains"), which takes fewer than two rounds on average. Every position
    costs the same, so a run resumes in the middle of a billion samples at once, and every world size sees the same
    order.
    """

    def __init__(self, size: int, seed: int | tuple[int, ...]) -> None:
        if size < 1:
            raise ValueError(f"there is no permutation of {size} things")
        self._size = np.uint64(size)
        bits = max(2, (size - 1).bit_length())
        self._right_bits = np.uint64(bits // 2)
        self._right_mask, self._left_mask = (np.uint64((1 << half) - 1) for half in (bits // 2, bits - bits // 2))
        self._keys = np.random.SeedSequence(seed).generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the image of each position. Positions outside 0 … size-1 have no meaning."""
        image = self._encrypt(positions.astype(np.uint64))
        while (outside := image >= self._size).any():
            image[outside] = self._encrypt(image[outside])
        return image.astype(np.int64)

    def _encrypt(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> self._right_bits, values & self._right_mask
        # The halves alternate instead of swapping, so that one half may have one bit more.
        for even, odd in zip(self._keys[::2], self._keys[1::2], strict=True):
            left ^= self._scramble(right ^ even) & self._left_mask
            right ^= self._scramble(left ^ odd) & self._right_mask
        return (left << self._right_bits) | right

    @staticmethod
    def _scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        mixed = values * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX
        return mixed >> np.uint64(32)
