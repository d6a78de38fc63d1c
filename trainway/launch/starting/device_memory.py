"""Whether the ranks of a program fit into the memory of their GPUs, as far as that can be computed before a launch."""

from __future__ import annotations

import sys
from typing import Final

from trainway.launch.program.allocation import Allocation
from trainway.launch.program.program import DeviceMemory, Program
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Accelerator

RESERVED_GIB: Final = 4
"""What CUDA's context and the buffers of NCCL take of a GPU. An allowance, which was not measured."""
CERTAIN: Final = 1.25
"""A program that needs this many times the memory of a GPU is refused. Below that, the computation can be wrong."""


def check_memory(program: Program, allocation: Allocation, catalogue: Catalogue) -> None:
    """Refuse a program whose ranks cannot fit into their GPUs. Warn on standard error of one that may not fit.

    Nothing is known of a program that does not say what it needs, nor of parts of a GPU. Raises UsageError.
    """
    found = _known(program, allocation, catalogue)
    if found is None:
        return
    memory, accelerator = found
    if memory.needed_gib <= accelerator.memory_gib - RESERVED_GIB:
        return
    what = f"{program.name} needs about {memory.needed_gib:.0f} GiB on each GPU of {allocation.group.instance_type}"
    why = f"an {accelerator.name} has {accelerator.memory_gib} GiB, of which CUDA and NCCL take about {RESERVED_GIB}"
    fix = _advice(memory)
    if memory.needed_gib > CERTAIN * accelerator.memory_gib:
        raise usage_error(what, why=why, fix=fix)
    print(f"warning: {what}, and {why}: {fix}", file=sys.stderr)


def memory_line(program: Program, allocation: Allocation, catalogue: Catalogue) -> str | None:
    """Return what a rank needs of its GPU, by kind, as one line. None if nothing is known of it."""
    found = _known(program, allocation, catalogue)
    if found is None:
        return None
    memory, accelerator = found
    kinds = ", ".join(f"{kind} {gib:.1f}" for kind, gib in memory.kinds)
    return (
        f"{program.name} needs about {memory.needed_gib:.1f} of {accelerator.memory_gib} GiB on each "
        f"{accelerator.name} of {allocation.group.instance_type}: {kinds}; CUDA and NCCL take about {RESERVED_GIB} more"
    )


def _known(program: Program, allocation: Allocation, catalogue: Catalogue) -> tuple[DeviceMemory, Accelerator] | None:
    """Return what a rank needs, and the GPU that it has for itself."""
    accelerator = catalogue[allocation.group.instance_type].accelerator
    if program.device_memory is None or accelerator is None or accelerator.vendor != "nvidia":
        return None
    if allocation.ranks != accelerator.count:
        return None
    return program.device_memory(allocation.world_size), accelerator


def _advice(memory: DeviceMemory) -> str:
    if memory.less is None:
        return "use more nodes, or a larger degree of `parallel`"
    key, gib = memory.less
    return f"with `{key}` in the job file it needs about {gib:.0f} GiB"
