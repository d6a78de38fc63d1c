"""Modes of PyTorch that note what is computed while they are active."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Counted(TorchDispatchMode):
    """Counts what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[operator.__name__.split(".")[0]] += 1
        return operator(*args, **(kwargs or {}))


class Order(TorchDispatchMode):
    """Notes the order of exchanges and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operator.__name__.split(".")[0]
        names = {
            "all_gather_into_tensor": "gather",
            "reduce_scatter_tensor": "scatter",
            "wait_tensor": "wait",
            "packed_attention": "attend",
            "packed_attention_backward": "differentiate",
        }
        if name in names:
            self.calls.append(names[name])
        return operator(*args, **(kwargs or {}))


class Products(TorchDispatchMode):
    """Notes the rows and columns of products."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        if operator is torch.ops.aten.mm.default:
            self.shapes.append(tuple(result.shape))
        return result


class Waits(TorchFunctionMode):
    """Counts the calls for which the host waits on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in ("tolist", "item", "__int__") or (
            name == "repeat_interleave" and "output_size" not in (named or {})
        ):
            self.calls.append(name)
        return function(*arguments, **(named or {}))
