"""Whether the ranks of a program fit into the memory of their GPUs, as far as that can be computed before a launch."""

from __future__ import annotations

import sys
from typing import Final

from trainway.launch.allocation import Allocation
from trainway.launch.program import DeviceMemory, Program
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue

RESERVED_GIB: Final = 4
"""What CUDA's context and the buffers of NCCL take of a GPU. An allowance, which was not measured."""
CERTAIN: Final = 1.25
"""A program that needs this many times the memory of a GPU is refused. Below that, the computation can be wrong."""


def check_memory(program: Program, allocation: Allocation, catalogue: Catalogue) -> None:
    """Refuse a program whose ranks cannot fit into their GPUs. Warn on standard error of one that may not fit.

    Nothing is known of a program that does not say what it needs, nor of parts of a GPU. Raises UsageError.
    """
    instance = catalogue[allocation.group.instance_type]
    accelerator = instance.accelerator
    if program.device_memory is None or accelerator is None or accelerator.vendor != "nvidia":
        return
    if allocation.ranks != accelerator.count:
        return
    memory = program.device_memory(allocation.world_size)
    if memory.needed_gib <= accelerator.memory_gib - RESERVED_GIB:
        return
    what = f"{program.name} needs about {memory.needed_gib:.0f} GiB on each GPU of {instance.name}"
    why = f"an {accelerator.name} has {accelerator.memory_gib} GiB, of which CUDA and NCCL take about {RESERVED_GIB}"
    fix = _advice(memory)
    if memory.needed_gib > CERTAIN * accelerator.memory_gib:
        raise usage_error(what, why=why, fix=fix)
    print(f"warning: {what}, and {why}: {fix}", file=sys.stderr)


def _advice(memory: DeviceMemory) -> str:
    if memory.less is None:
        return "use more nodes, or a larger degree of `parallel`"
    key, gib = memory.less
    return f"with `{key}` in the job file it needs about {gib:.0f} GiB"
