"""Reusable memory. A fresh page costs several times as much as filling it."""

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
        # The thread that drops a tensor last returns its buffer. The two ends of a deque need no lock.
        self._free: deque[NDArray[np.generic]] = deque()

    def lend(self) -> Tensor:
        """Return a tensor of any content. Its memory is lent again once no tensor or view refers to it."""
        buffer = self._free.pop() if self._free else np.empty(self._shape, self._dtype)
        # All views share a storage, which holds the array it was made from. The storage and the array are freed
        # together.
        loan = buffer.view()
        weakref.finalize(loan, self._free.append, buffer).atexit = False
        return torch.from_numpy(loan)
