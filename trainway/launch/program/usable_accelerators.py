"""Whether a program can use the accelerators of a node group. PyTorch reaches those of AWS only by the Neuron SDK."""

from __future__ import annotations

from trainway.launch.program.program import Program
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.instance import Accelerator

FIX = (
    "use a node group with NVIDIA GPUs, start a program of the Neuron SDK by a section `run` in the place of `model`, "
    "or set `device: cpu`"
)


def is_usable(program: Program, accelerator: Accelerator | None) -> bool:
    """Return whether the program can use the accelerators of an instance type, or the type has none."""
    return accelerator is None or program.vendors is None or accelerator.vendor in program.vendors


def why_unusable(instance_type: str, accelerator: Accelerator) -> str:
    """Return why Trainway's training job cannot use the accelerators of an instance type.

    https://awsdocs-neuron.readthedocs-hosted.com/en/latest/training/index.html (read 2026-11-29)
    """
    return (
        f"{instance_type} has {accelerator.count} {accelerator.name}, which PyTorch reaches only by the Neuron SDK, "
        "and the training job uses CUDA"
    )


def unusable(program: Program, group: str, instance_type: str, accelerator: Accelerator) -> UsageError:
    """Return the error for a program that cannot use the accelerators of the node group `group`."""
    what = f"{program.name} cannot train on the node group {group}"
    return usage_error(what, why=why_unusable(instance_type, accelerator), fix=FIX)
