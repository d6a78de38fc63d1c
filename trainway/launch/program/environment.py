"""What a job is told by its environment, on every target: training/train.py and training/hosts/locations.py read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath

from trainway.launch.program.allocation import Allocation
from trainway.spec.facts.metrics_ports import RUN_METRICS_PORT
from trainway.spec.handoff import HandOff

# Without it a restarted job waits five minutes for addresses of dead workers: pytorch/pytorch#135712.
RESTARTABLE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

# What makes NCCL say, once its ranks have met, which network it uses: `trainway verify` reads it.
# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug (read 2026-11-21)
NCCL_EVIDENCE = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}

NCCL_NET = "NCCL_NET"
# The name of AWS's plugin for NCCL from aws-ofi-nccl 1.13 on. Older releases are called "AWS Libfabric", a name that
# newer ones take, too: nvidia_plugin_name_fixup in src/nccl_ofi_interface_nvidia.cpp of the branches v1.12.x-aws to
# v1.21.x of https://github.com/aws/aws-ofi-nccl (read 2026-12-01). NCCL compares without case, and ends with "Failed to
# initialize any NET plugin" if no plugin of the name starts: ncclNetInit in src/plugin/net.cc of
# https://github.com/NVIDIA/nccl, v2.28.9 and v2.30.7 (read 2026-12-01).
EFA_NETWORK = "Libfabric"

# The number of collectives of which each rank keeps the state: PyTorch's own default, which some releases do not have.
RECORDED_COLLECTIVES = 2000
FLIGHT_RECORDER_PREFIX = "flight-recorder-rank-"


def job_environment(job_file: PurePath, run_directory: PurePath) -> dict[str, str]:
    """Return the environment of every job: where its file and metrics are, and what a hang leaves beside them."""
    return {
        "TRAINWAY_JOB": str(job_file),
        "TRAINWAY_RUN": str(run_directory),
        **RESTARTABLE,
        **_flight_recorder(run_directory),
    }


def _flight_recorder(run_directory: PurePath) -> dict[str, str]:
    """Return the settings by which a collective that times out leaves a file of each rank. By default it is in /tmp.

    https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html (read 2026-11-23). PyTorch 2.13 warns of
    the names TORCH_NCCL_TRACE_BUFFER_SIZE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE. The newer names are also in 2.11:
    https://github.com/pytorch/torchtitan/pull/1748 (read 2026-11-29)
    """
    return {
        "TORCH_FR_BUFFER_SIZE": str(RECORDED_COLLECTIVES),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": str(run_directory / FLIGHT_RECORDER_PREFIX),
    }


def metrics_environment() -> dict[str, str]:
    """Return what makes the first rank of each node of a training job answer Prometheus.

    The address is that of a pod, or of a node whose network only the cluster reaches.
    """
    return {"TRAINWAY_METRICS": f"0.0.0.0:{RUN_METRICS_PORT}"}


def platform_environment(hand_off: HandOff, roots: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a job on a platform. `roots` maps the schemes of locations to directories."""
    return {
        # The S3 connector of the checkpoints does not look the Region up by itself.
        "AWS_REGION": hand_off.region,
        "TRAINWAY_LOCATIONS": json.dumps(dict(roots), sort_keys=True),
        "TRAINWAY_CHECKPOINTS": json.dumps(hand_off.checkpoints.model_dump(), sort_keys=True),
    }


def accelerators_environment(allocation: Allocation) -> dict[str, str]:
    """Return what the instance type of the nodes has, by which the training job knows that it must not use the CPU.

    training/hosts/accelerators.py reads it. It is empty for nodes without accelerators. This machine is not told.
    """
    accelerator = allocation.accelerator
    if accelerator is None:
        return {}
    stated = {
        "instance_type": allocation.group.instance_type,
        "vendor": accelerator.vendor,
        "name": accelerator.name,
        "count": accelerator.count,
    }
    return {"TRAINWAY_ACCELERATORS": json.dumps(stated, sort_keys=True)}


def nodes_environment(
    hand_off: HandOff,
    allocation: Allocation,
    roots: Mapping[str, str],
    job_file: PurePath,
    run_directory: PurePath,
) -> dict[str, str]:
    """Return the environment of a job on nodes of AWS, whatever its program is. `roots` are as those of a platform."""
    return {
        **job_environment(job_file, run_directory),
        **platform_environment(hand_off, roots),
        **accelerators_environment(allocation),
        **NCCL_EVIDENCE,
    }


def network_environment(network: str | None) -> dict[str, str]:
    """Return what makes NCCL use a network or end the job. Nothing for None: NCCL may use any."""
    return {} if network is None else {NCCL_NET: network}


def cluster_roots(hand_off: HandOff) -> dict[str, str]:
    """The root of each scheme on the platform's own nodes. Only nodes that mount a file system have one of `fsx`."""
    mounted = {"fsx": hand_off.mount_path} if hand_off.file_system else {}
    return mounted | {"s3": f"s3://{hand_off.bucket}"}
