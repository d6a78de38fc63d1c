"""What a node with accelerators can lack for a training job, what its job then says, and how it is explained."""

from __future__ import annotations

import pytest

from training.hosts.accelerators import StatedAccelerators

P5 = StatedAccelerators("p5.48xlarge", "nvidia", "H100", 8)
TRN2 = StatedAccelerators("trn2.48xlarge", "neuron", "Trainium2", 16)
GPUS = tuple(f"/dev/nvidia{number}" for number in range(8))
NEW, OLD = "580.159.03", "535.216.03"
# As PyTorch raises them: https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp and `_lazy_init` of
# torch/cuda/__init__.py (read 2026-11-29)
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver by downloading "
    "and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
)
UNSUPPORTED = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that "
    "might have already set an error? Error 804: forward compatibility was attempted on non supported HW"
)
NONE_AVAILABLE = "No CUDA GPUs are available"
NO_DRIVER = "Found no NVIDIA driver on your system."
NOT_READY = "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"

# What the launcher states, the device files and the driver, what CUDA says, parts of the message, and the rule of
# `trainway explain` for it.
REFUSALS = [
    pytest.param(
        P5,
        (GPUS, NEW),
        (None, 0, "Torch not compiled with CUDA enabled", None),
        "p5.48xlarge has 8 H100, but the PyTorch of this image is built without CUDA",
        "image.variant: cuda",
        "image-without-cuda",
        id="an image for the CPU",
    ),
    pytest.param(
        P5,
        (GPUS, OLD),
        ("13.0", 0, TOO_OLD, None),
        "the NVIDIA driver 535.216.03 of the node is older than CUDA 13.0 of the image requires: CUDA 13 requires "
        "driver 580 or newer",
        "Use a newer node image, or an image with an older CUDA",
        "gpu-driver-too-old",
        id="an old driver",
    ),
    pytest.param(
        P5,
        (GPUS, OLD),
        ("12.8", 0, UNSUPPORTED, None),
        "the libraries of cuda-compat in the image do not support this GPU with the NVIDIA driver 535.216.03",
        "Remove cuda-compat from the image",
        "gpu-driver-too-old",
        id="cuda-compat on a GPU that it does not support",
    ),
    pytest.param(
        P5,
        (GPUS, OLD),
        ("14.1", 0, TOO_OLD, ""),
        "CUDA 14 requires the driver of NVIDIA's compatibility table",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
        "gpu-driver-too-old",
        id="a CUDA that is not in the table, and hidden GPUs",
    ),
    pytest.param(
        P5,
        ((), NEW),
        ("13.0", 0, NO_DRIVER, ""),
        "no GPU of the node is in this container: it has no device files /dev/nvidia*",
        "`nvidia.com/gpu` in the limits of a pod",
        "gpu-not-in-container",
        id="a container without devices",
    ),
    pytest.param(
        P5,
        ((), None),
        ("13.0", 0, NO_DRIVER, None),
        "the node has no NVIDIA driver and no device files",
        "EKS's accelerated AMI",
        "gpu-absent",
        id="a node without a driver",
    ),
    pytest.param(
        P5,
        (GPUS, NEW),
        ("13.0", 0, NONE_AVAILABLE, ""),
        "CUDA_VISIBLE_DEVICES is '' and hides GPUs from the 8 ranks",
        "Remove the variable",
        "gpu-hidden",
        id="hidden GPUs",
    ),
    pytest.param(
        P5,
        (GPUS, NEW),
        ("13.0", 2, None, "0,1,-1,2,3,4,5,6,7"),
        "CUDA_VISIBLE_DEVICES is '0,1,-1,2,3,4,5,6,7' and hides GPUs",
        "Remove the variable",
        "gpu-hidden",
        id="GPUs that are hidden by a wrong index",
    ),
    pytest.param(
        P5,
        (GPUS, NEW),
        ("13.0", 0, NOT_READY, "0,1,2,3,4,5,6,7"),
        "CUDA cannot be initialized",
        "nvidia-smi",
        "gpu-fabric-manager",
        id="GPUs that are not ready",
    ),
    pytest.param(
        P5,
        (GPUS, NEW),
        ("13.0", 7, None, None),
        "only 7 of the 8 GPUs for the ranks of the node can be used",
        "look for Xid",
        "gpu-absent",
        id="a lost GPU",
    ),
    pytest.param(
        TRN2,
        (("/dev/neuron0", "/dev/neuron1"), None),
        ("13.0", 0, NO_DRIVER, None),
        "trn2.48xlarge has 16 Trainium2, but this job trains with CUDA, and PyTorch reaches Trainium2 only through "
        "the Neuron SDK",
        "Launch it on a node group with NVIDIA GPUs",
        "neuron-needs-its-sdk",
        id="Trainium",
    ),
]
