"""Modes of PyTorch that see where the host reads numbers of tensors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import training

PROJECT = str(Path(training.__file__).parent)
# What gives the host a number of a tensor, has a result whose shape is one, or copies from memory that is not pinned:
# on a GPU, the host waits in each until the device has nothing left to do.
METHODS = {"item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "nonzero", "tensor"}
OPERATORS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "bincount",
    "_unique2",
    "equal",
    "is_nonzero",
    "repeat_interleave",
}


class Watch:
    """Which files of the project read numbers of tensors, from the first forward pass on."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.began = False

    def see(self) -> None:
        frame = sys._getframe(1)
        while frame and not frame.f_code.co_filename.startswith(PROJECT):
            assert frame.f_back, "nothing of the project reads here"
            frame = frame.f_back
        if self.began:
            self.files.add(Path(frame.f_code.co_filename).name)


class Methods(TorchFunctionMode):
    """Sees what is called in Python."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        # The gradient mode of a checkpointed layer and the like are no methods of tensors.
        if name in METHODS or (name == "to" and "cpu" in arguments and "non_blocking" not in (named or {})):
            self._watch.see()
        return function(*arguments, **(named or {}))


class Operators(TorchDispatchMode):
    """Sees what is called in C++, such as by a fused optimizer."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        if function.overloadpacket.__name__.split(".")[-1] in OPERATORS:
            self._watch.see()
        return function(*arguments, **(named or {}))
