"""Facts found on the nodes, and the expected facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Instance
from trainway.spec.facts.versions import Versions
from trainway.spec.image.image_build import build_arguments, own_base
from trainway.spec.platform import Platform
from trainway.verify.all_reduce import Sweep, read_sweep
from trainway.verify.nccl_log import NodeNetwork, by_node, read_nccl_log
from trainway.verify.probe import MARK


class FileSystemFacts(BaseModel):
    """A test file that was written and read back: bandwidths in MB/s, and the error if it failed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str
    write_mbps: float | None = None
    read_mbps: float | None = None
    error: str | None = None


class NodeFacts(BaseModel):
    """Facts that the probe printed on a node. None means that the probe could not find a fact.

    memlock_bytes is -1 without a limit.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    node: str
    index: int = 0
    efa_devices: int = 0
    uverbs: int = 0
    libfabric: str | None = None
    aws_ofi_nccl: str | None = None
    nccl: str | None = None
    cuda: str | None = None
    torch: str | None = None
    gpus: int | None = None
    memlock_bytes: int = -1
    shm_bytes: int = 0
    driver: str | None = None
    clock_offset_seconds: float | None = None
    file_system: FileSystemFacts | None = None
    dcgm: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Expected:
    """Expected facts of the nodes: their number, their type, and the versions in their image.

    `versions` is empty if the image is not one of the matrix.
    """

    nodes: int
    instance: Instance
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Input of all checks.

    `allocatable` has a node's devices as Kubernetes counts them, and is empty without Kubernetes.
    """

    expected: Expected
    nodes: tuple[NodeFacts, ...] = ()
    networks: Mapping[str, NodeNetwork] = field(default_factory=dict)
    sweep: Sweep | None = None
    allocatable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def facts_of_log(text: str, expected: Expected, allocatable: Mapping[str, Mapping[str, int]] | None = None) -> Facts:
    """Return the facts in the output of the probe's job on all nodes, in any order."""
    return Facts(
        expected=expected,
        nodes=tuple(sorted(_nodes(text), key=lambda each: (each.index, each.node))),
        networks=by_node(read_nccl_log(text)),
        sweep=read_sweep(text),
        allocatable=allocatable or {},
    )


def expected_versions(platform: Platform, catalogue: Catalogue, versions: Versions) -> dict[str, str]:
    """Return the versions in an image, by the names of NodeFacts, of the platform as the image sees it.

    Empty for an image of yours, and for one on a base of yours. Only the versions of the image's variant are included:
    an image for CPUs has no libfabric.
    """
    if own_base(platform) or platform.image.uri:
        return {}
    arguments = build_arguments(platform, catalogue, versions)
    named = {
        "libfabric": arguments["LIBFABRIC_VERSION"],
        "aws_ofi_nccl": arguments["AWS_OFI_NCCL_VERSION"],
        "nccl": arguments["NCCL_VERSION"],
        "cuda": arguments["CUDA_VERSION"],
        "torch": arguments["PYTORCH_VERSION"],
    }
    return {name: version for name, version in named.items() if version}


def _nodes(text: str) -> Iterator[NodeFacts]:
    for line in text.splitlines():
        _, mark, document = line.partition(MARK)
        if not mark:
            continue
        try:
            yield NodeFacts.model_validate(json.loads(document))
        except (ValueError, ValidationError):  # an incomplete line, or one that another process wrote into
            continue
