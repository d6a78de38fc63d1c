"""Measure the time that a rank spends in the computation of one of its layers, without the waits for other ranks.

All ranks take a step in the same time, because each collective ends with its slowest rank. The gathers and reductions
of FSDP are between the layers. The hooks of this module are inside of FSDP's, so the time between them has none:

- FSDP waits for the weights of a layer in a hook before the forward pass that runs before all others, and in the first
  hook of the gradient of the layer's output (torch/distributed/fsdp/_fully_shard/_fsdp_state.py, `FSDPState`, of
  2.13.0, read 2026-11-29).
- FSDP reduces the gradients after the gradient of the layer's input is known.

On an accelerator, the marks are events on its stream, which are read a step later. On a CPU, the marks are the
processor time of the thread: it stands still while the thread waits in a collective, or for a processor.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

PHASES_OF_LAYER = ("forward", "backward")


class LayerSpan(NamedTuple):
    """One pass through the layer, between two marks: events of an accelerator, or seconds of a thread."""

    phase: str
    begin: Any
    end: Any


class LayerTimes:
    """The passes through one layer, each from its first operation to its last.

    Create this after FSDP has the layer, so that the hooks of this rank come after FSDP's.
    """

    def __init__(self, layer: nn.Module, device: torch.device) -> None:
        self._device = device
        self._spans: list[LayerSpan] = []
        self._began: Any = None
        layer.register_forward_pre_hook(self._before)
        layer.register_forward_hook(self._after)

    def end_step(self) -> list[LayerSpan]:
        """Return the passes since the last call, for `layer_seconds`."""
        spans, self._spans = self._spans, []
        return spans

    def _before(self, _layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        # The input and the output of this pass share `backward`, because a pipeline has several passes at once.
        backward: list[Any] = []
        hidden: Tensor = inputs[0]
        if hidden.requires_grad:
            _on_gradient(hidden, lambda _: self._end_backward(backward))
        self._began = (self._mark(), backward)

    def _after(self, _layer: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> None:
        if not torch.is_grad_enabled():  # an evaluation
            return
        began, backward = self._began
        self._spans.append(LayerSpan("forward", began, self._mark()))
        _on_gradient(output, lambda _: backward.append(self._mark()))

    def _end_backward(self, backward: list[Any]) -> None:
        if backward:
            self._spans.append(LayerSpan("backward", backward.pop(), self._mark()))

    def _mark(self) -> Any:
        if self._device.type == "cpu":
            return time.thread_time()
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        return event


def _on_gradient(tensor: Tensor, call: Callable[[Tensor], None]) -> None:
    tensor.register_hook(call)  # type: ignore[no-untyped-call]


def layer_seconds(spans: list[LayerSpan]) -> dict[str, float]:
    """Return the seconds of both phases in the passes of a step. The device must have finished the step."""
    spent = dict.fromkeys(PHASES_OF_LAYER, 0.0)
    for phase, begin, end in spans:
        # Events measure milliseconds.
        spent[phase] += end - begin if isinstance(end, float) else begin.elapsed_time(end) / 1000
    return spent
