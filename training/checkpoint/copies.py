"""A copy of the state in the host's memory, so that training can change the state while the copy is written."""

import contextlib
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from training.checkpoint.state import StateDict


class HostCopy:
    """Host memory that every copy of the state reuses.

    It is pinned if the state is on a GPU, so that copies do not block.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.Stream(device) if device.type != "cpu" else None
        self._memory: dict[str, Tensor] = {}

    def follow(self) -> None:
        """Let the next copy begin when the device has finished the work that this thread has queued so far."""
        if self._stream:
            self._stream.wait_stream(torch.accelerator.current_stream())

    def of(self, state: StateDict) -> StateDict:
        """Return a copy of the state, from any thread. It overwrites the copy before it."""
        with torch.no_grad(), self._stream or contextlib.nullcontext():
            copy: StateDict = self._copied(state, "")
        if self._stream:
            self._stream.synchronize()
        return copy

    def _copied(self, value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return {key: self._copied(each, f"{name}/{key}") for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._copied(each, f"{name}/{number}") for number, each in enumerate(value))
        if not isinstance(value, Tensor):
            return value
        if is_traceable_wrapper_subclass(value):  # a DTensor, or an 8-bit tensor of torchao's
            parts, context = value.__tensor_flatten__()
            copies = {part: self._copied(getattr(value, part), f"{name}/{part}") for part in parts}
            return type(value).__tensor_unflatten__(copies, context, value.size(), value.stride())
        memory = self._memory.get(name)
        if memory is None or memory.shape != value.shape or memory.dtype != value.dtype:
            memory = torch.empty_like(value, device="cpu", pin_memory=self._stream is not None)
            self._memory[name] = memory
        return memory.copy_(value, non_blocking=self._stream is not None)
