"""The device of a rank: a GPU, or the CPU where that is meant.

A job that falls back to the CPU on a node with accelerators would run for weeks at the price of the accelerators. So it
ends at its start, with what it found.
"""

import os
import re
from typing import Literal, NamedTuple

import torch

from training.errors import UserError
from training.hosts.accelerators import (
    FoundAccelerators,
    StatedAccelerators,
    found_accelerators,
    stated_accelerators,
)

# The oldest driver branch by the major version of CUDA, table 1 of
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html (read 2026-11-29). A test compares
# it with trainway/spec/facts/drivers.yaml, which is not in the image.
OLDEST_DRIVERS = {"12": 525, "13": 580}
# The sentence of PyTorch for a driver that is too old, and the error of CUDA if libraries of cuda-compat do not help:
# https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp (read 2026-11-29)
_OLD_DRIVER = re.compile(r"driver on your system is too old|Error 804:")
_ON_PURPOSE = "To train on the CPU on purpose, set `device: cpu` in the job file"


class CudaState(NamedTuple):
    """What CUDA says to this process.

    `built_for` is the CUDA version for which PyTorch was built, or None. `gpus` is the number of GPUs that the process
    can use. `error` is the error of CUDA's initialization, or None if there is none. `visible` is
    CUDA_VISIBLE_DEVICES, or None if it is not set.
    """

    built_for: str | None
    gpus: int
    error: str | None
    visible: str | None

    def __str__(self) -> str:
        """Return all of it as parts of a sentence."""
        built = f"for CUDA {self.built_for}" if self.built_for else "without CUDA"
        visible = "not set" if self.visible is None else repr(self.visible)
        said = f"; CUDA says {self.error!r}" if self.error else ""
        return (
            f"PyTorch {torch.__version__} built {built}; CUDA_VISIBLE_DEVICES {visible}; {self.gpus} usable GPUs{said}"
        )


def device_of_rank(wanted: Literal["accelerator", "cpu"], local_rank: int) -> torch.device:
    """Return the device of a rank of this node. With `accelerator`, it is the CPU only on a node without accelerators.

    FSDP supports no other device as well as these two.

    Raises:
        UserError: the node has fewer usable GPUs than ranks, although its instance type has accelerators.
    """
    if wanted == "cpu":
        return torch.device("cpu")
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    stated = stated_accelerators()
    if stated is not None and (stated.vendor != "nvidia" or gpus < ranks):
        raise UserError(refusal(stated, ranks, found_accelerators(stated.vendor), cuda_state(gpus)))
    if gpus == 0:
        return torch.device("cpu")
    if gpus < ranks:
        raise UserError(
            f"this is local rank {local_rank} of {ranks}, but the node has {gpus} GPUs; use torchrun "
            f"--nproc-per-node gpu. CUDA_VISIBLE_DEVICES is {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def cuda_state(gpus: int) -> CudaState:
    """Return what CUDA says to this process, which can use `gpus` GPUs."""
    error = None
    if gpus == 0:
        try:
            # `is_available` only warns. This raises the error of the initialization.
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except (AssertionError, RuntimeError) as raised:
            error = str(raised).partition("\n")[0]
    return CudaState(torch.version.cuda, gpus, error, os.environ.get("CUDA_VISIBLE_DEVICES"))


def refusal(stated: StatedAccelerators, ranks: int, found: FoundAccelerators, cuda: CudaState) -> str:
    """Return why a node with accelerators cannot run its ranks on them, what was found, and how to mend it."""
    why, fix = _cause(stated, ranks, found, cuda)
    return f"{stated}, but {why}. Found: {found}; {cuda}. {fix}. {_ON_PURPOSE}"


def _cause(stated: StatedAccelerators, ranks: int, found: FoundAccelerators, cuda: CudaState) -> tuple[str, str]:
    """Return the first cause without whose repair no other one matters, and its remedy."""
    if stated.vendor != "nvidia":
        # https://awsdocs-neuron.readthedocs-hosted.com/en/latest/training/index.html (read 2026-11-29)
        return (
            f"this job trains with CUDA, and PyTorch reaches {stated.name} only through the Neuron SDK",
            "Launch it on a node group with NVIDIA GPUs, or start a program of the Neuron SDK by a section `run` in "
            "the job file",
        )
    if cuda.built_for is None:
        return (
            "the PyTorch of this image is built without CUDA",
            "Use an image for CUDA: `image.variant: cuda` of the platform file, or a PyTorch with CUDA in your image",
        )
    if not found.device_files:
        return _without_devices(found)
    if cuda.error is not None and _OLD_DRIVER.search(cuda.error):
        return _with_old_driver(found, cuda)
    if cuda.visible is not None and len(_listed(cuda.visible)) < ranks:
        return (
            f"CUDA_VISIBLE_DEVICES is {cuda.visible!r} and hides GPUs from the {ranks} ranks of the node",
            "Remove the variable from the image, the environment, or the shell that started the job",
        )
    if cuda.gpus == 0:
        return (
            "CUDA cannot be initialized",
            "Read the error of CUDA above, and run `nvidia-smi` on the node. Replace the node if it fails there, too",
        )
    return (
        f"only {cuda.gpus} of the {ranks} GPUs for the ranks of the node can be used",
        "Run `nvidia-smi` on the node, and look for Xid in its kernel log. Replace a node that lost a GPU. A container "
        "must get all GPUs of the node",
    )


def _without_devices(found: FoundAccelerators) -> tuple[str, str]:
    if found.driver is None:
        return (
            "the node has no NVIDIA driver and no device files",
            "Use a node image with NVIDIA's driver, such as EKS's accelerated AMI",
        )
    return (
        "no GPU of the node is in this container: it has no device files /dev/nvidia*",
        "Request the GPUs: `nvidia.com/gpu` in the limits of a pod, `--gpus-per-node` under Slurm, or `--gpus all` of "
        "Docker. In Kubernetes the device plugin must run on the node",
    )


def _with_old_driver(found: FoundAccelerators, cuda: CudaState) -> tuple[str, str]:
    driver = f"NVIDIA driver {found.driver}" if found.driver else "NVIDIA driver"
    major = str(cuda.built_for).partition(".")[0]
    oldest = OLDEST_DRIVERS.get(major)
    if found.driver and oldest and int(found.driver.partition(".")[0]) >= oldest:
        # Error 804: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html (read 2026-11-23)
        return (
            f"the libraries of cuda-compat in the image do not support this GPU with the {driver}, which CUDA "
            f"{cuda.built_for} can use without them",
            "Remove cuda-compat from the image and from LD_LIBRARY_PATH, or use a newer node image",
        )
    needed = f"driver {oldest} or newer" if oldest else "the driver of NVIDIA's compatibility table"
    return (
        f"the {driver} of the node is older than CUDA {cuda.built_for} of the image requires: CUDA {major} requires "
        f"{needed}",
        "Use a newer node image, or an image with an older CUDA: `image.versions` of the platform file. Table: "
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    )


def _listed(visible: str) -> list[str]:
    """Return the devices in CUDA_VISIBLE_DEVICES before the first name that is wrong, where CUDA stops to read.

    https://docs.nvidia.com/cuda/archive/13.4.3/cuda-programming-guide/05-appendices/environment-variables.html (read
    2026-11-29)
    """
    names = [name.strip() for name in visible.split(",")]
    wrong = next((index for index, name in enumerate(names) if not re.fullmatch(r"\d+|(GPU|MIG)-.+", name)), len(names))
    return names[:wrong]
