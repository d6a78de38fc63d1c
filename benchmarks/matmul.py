"""Measure a device's matrix products: the fastest square one of several sizes, in bf16 and in float8."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

REPETITIONS = 20


def ceilings(device: torch.device, sizes: Sequence[int]) -> dict[str, dict[str, float] | str]:
    """Return TFLOP/s of [size, size] times [size, size], by kind and size.

    A sentence stands in place of figures if the device has no such product.
    """
    found: dict[str, dict[str, float] | str] = {}
    for kind, product_of in (("bf16", _bf16), ("float8 tensorwise", _tensorwise), ("float8 rowwise", _rowwise)):
        try:
            found[kind] = {
                str(size): round(2 * size**3 / _seconds(product_of(size, device)) / 1e12, 3) for size in sizes
            }
        # PyTorch raises these for a product that the device lacks. The second is for a missing operator.
        except (RuntimeError, NotImplementedError, ValueError) as error:
            found[kind] = str(error).splitlines()[0]
    return found


def _bf16(size: int, device: torch.device) -> Callable[[], Tensor]:
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return lambda: left @ right


def _tensorwise(size: int, device: torch.device) -> Callable[[], Tensor]:
    return _scaled(size, torch.ones((), device=device), torch.ones((), device=device))


def _rowwise(size: int, device: torch.device) -> Callable[[], Tensor]:
    return _scaled(size, torch.ones(size, 1, device=device), torch.ones(1, size, device=device))


def _scaled(size: int, left_scale: Tensor, right_scale: Tensor) -> Callable[[], Tensor]:
    left, right = (torch.randn(size, size, device=left_scale.device).to(torch.float8_e4m3fn) for _ in range(2))
    # The kernels take the right factor in column-major order.
    return lambda: torch._scaled_mm(
        left, right.t(), left_scale, right_scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _seconds(product: Callable[[], Tensor]) -> float:
    """Return the seconds of one product in a series of them."""
    for _ in range(3):
        result = product()
    _wait(result)
    began = time.perf_counter()
    for _ in range(REPETITIONS):
        result = product()
    _wait(result)
    return (time.perf_counter() - began) / REPETITIONS


def _wait(result: Tensor) -> None:
    if result.device.type != "cpu":
        torch.accelerator.synchronize(result.device)
