"""Memory that is used again, because a fresh page of it costs several times what filling it does."""

import weakref
from collections import deque

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor


class Buffers:
    """Buffers of one shape and type, as many as are in use at the same time."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        # Given back by whichever thread lets go of a tensor last; a deque's two ends need no lock.
        self._free: deque[NDArray[np.generic]] = deque()

    def lend(self) -> Tensor:
        """A tensor of any content, whose memory is lent again once no tensor refers to it, not even a view."""
        buffer = self._free.pop() if self._free else np.empty(self._shape, self._dtype)
        # The storage that all views share holds the array it was made from, so the end of one is that of the other.
        loan = buffer.view()
        weakref.finalize(loan, self._free.append, buffer).atexit = False
        return torch.from_numpy(loan)
