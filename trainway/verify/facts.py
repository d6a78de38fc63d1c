"""What was found on the nodes, and what ought to be there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trainway.spec.derived.image_build import build_arguments
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Instance
from trainway.spec.facts.versions import Versions
from trainway.spec.platform import Platform
from trainway.verify.all_reduce import Sweep, read_sweep
from trainway.verify.nccl_log import NodeNetwork, by_node, read_nccl_log
from trainway.verify.probe import MARK


class FileSystemFacts(BaseModel):
    """A file that was written and read back: bandwidths in MB/s, and what went wrong."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str
    write_mbps: float | None = None
    read_mbps: float | None = None
    error: str | None = None


class NodeFacts(BaseModel):
    """What the probe printed on a node; None where it could not find it out. memlock_bytes is -1 without a limit."""

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
    """What the nodes ought to have: how many there are, of which type, and the versions in their image.

    A version is left out where the image is not one of the matrix.
    """

    nodes: int
    instance: Instance
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Everything the checks look at. `allocatable` has a node's devices as Kubernetes counts them; empty without it."""

    expected: Expected
    nodes: tuple[NodeFacts, ...] = ()
    networks: Mapping[str, NodeNetwork] = field(default_factory=dict)
    sweep: Sweep | None = None
    allocatable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def facts_of_log(text: str, expected: Expected, allocatable: Mapping[str, Mapping[str, int]] | None = None) -> Facts:
    """The facts in what the probe's job wrote on all nodes together, in any order."""
    return Facts(
        expected=expected,
        nodes=tuple(sorted(_nodes(text), key=lambda each: (each.index, each.node))),
        networks=by_node(read_nccl_log(text)),
        sweep=read_sweep(text),
        allocatable=allocatable or {},
    )


def expected_versions(platform: Platform, catalogue: Catalogue, versions: Versions) -> dict[str, str]:
    """Return the versions in the platform's training image, by the names of NodeFacts; nothing for your own base image.

    Only what the image's variant has is there: an image for processors has no libfabric.
    """
    if platform.image.base:
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
        except (ValueError, ValidationError):  # a line that was cut off, or that another wrote into
            continue
