"""Choose the kernels of attention by the GPU's compute capability.

`F.scaled_dot_product_attention` alone prefers FlashAttention 2 and takes cuDNN last. On Hopper and data-center
Blackwell GPUs, cuDNN is faster: 1.7 to 2.3 times on H100, and 1.2 to 2 times as fast as FlashAttention 4 on B200. On
A100, L40S, and RTX PRO 6000 it is as fast or slower. (https://github.com/huggingface/transformers/issues/48163 and
https://github.com/sgl-project/sglang/issues/33655, read 2026-11-22)

Documents and windows need FlashAttention, of which PyTorch contains version 2. Versions 3 and 4 are packages.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Capability = tuple[int, int]

CUDNN_IS_FASTER: frozenset[Capability] = frozenset({(9, 0), (10, 0), (10, 3)})


def backends(capability: Capability) -> list[SDPBackend]:
    """Return the kernels of `F.scaled_dot_product_attention`, the first choice first."""
    usual = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    if capability in CUDNN_IS_FASTER:
        return [SDPBackend.CUDNN_ATTENTION, *usual]
    return [*usual[:2], SDPBackend.CUDNN_ATTENTION, usual[2]]


def newer_flash_attention(
    capability: Capability, installed: Callable[[str], bool] | None = None
) -> Literal["FA3", "FA4"] | None:
    """Return the newest FlashAttention that is installed and has kernels for a GPU, or None if it is PyTorch's own.

    PyTorch accepts version 3 for compute capability 9.0 and version 4 for 9 and 10. (`torch/nn/attention/_fa3.py` and
    `_fa4.py` of 2.13, read 2026-11-22)
    """
    found = installed or _installed
    if capability == (9, 0) and found("flash_attn_interface"):
        return "FA3"
    if capability[0] in (9, 10) and found("flash_attn.cute"):
        return "FA4"
    return None


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


@contextmanager
def chosen_kernels(device: torch.device) -> Iterator[None]:
    """Use the kernels of attention that suit a device, until the end of the context."""
    if device.type != "cuda":
        yield
        return
    capability = torch.cuda.get_device_capability(device)
    version = newer_flash_attention(capability)
    # PyTorch 2.10 does not have the function.
    if version and hasattr(nn.attention, "activate_flash_attention_impl"):
        nn.attention.activate_flash_attention_impl(version)
    with sdpa_kernel(backends(capability), set_priority=True):
        yield
