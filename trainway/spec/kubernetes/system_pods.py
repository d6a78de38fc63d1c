"""The pods of the system nodes, from system_pods.yaml, and whether they fit there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source
from trainway.spec.kubernetes.addons import addons_in_cluster
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.kubernetes.pod_network import SYSTEM_PODS
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SystemPods(_Facts):
    """The pods of one DaemonSet or Deployment, and the requests of each pod."""

    name: str
    kind: Literal["daemonset", "deployment"]
    replicas: PositiveInt | None = None
    cpu_millicores: NonNegativeInt
    memory_mib: NonNegativeInt

    @model_validator(mode="after")
    def _only_deployments_have_replicas(self) -> Self:
        if (self.kind == "deployment") != (self.replicas is not None):
            raise ValueError("a deployment has replicas, and a daemonset has none")
        return self

    @property
    def each(self) -> Share:
        """Return the share of one of the pods."""
        return Share(1, self.cpu_millicores, self.memory_mib)


class Workload(_Facts):
    """The pods of an add-on or a chart on system nodes, and the AWS services that it calls.

    It must name its sources.
    """

    calls: tuple[str, ...]
    pods: tuple[SystemPods, ...]
    note: str | None = None
    sources: tuple[Source, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _nothing_is_explained(self) -> Self:
        silent = [pod.name for pod in self.pods if not (pod.cpu_millicores or pod.memory_mib)]
        if self.note is None and (silent or not self.pods):
            raise ValueError(f"{', '.join(silent) or 'no pod'} asks for nothing, and no note says why")
        return self


class ReservedCpu(_Facts):
    """The share of each CPU, up to the `first` ones, that pods do not get. None means all other CPUs."""

    first: PositiveInt | None
    of_ten_thousand: NonNegativeInt


class NodeOverhead(_Facts):
    """Resources that EKS's nodes reserve. Memory is in MiB, and the overhead a fraction of the instance's memory."""

    reserved_cpu: tuple[ReservedCpu, ...]
    reserved_memory_mib: int
    reserved_memory_mib_per_pod: int
    eviction_memory_mib: int
    vm_memory_overhead: float
    sources: tuple[Source, ...] = Field(min_length=1)


class SystemFacts(_Facts):
    """The content of system_pods.yaml, with add-ons and charts by name."""

    node: NodeOverhead
    addons: Mapping[str, Workload]
    charts: Mapping[str, Workload]


@cache
def system_facts() -> SystemFacts:
    """Return the facts of system_pods.yaml, read once."""
    return SystemFacts.model_validate(read_facts(FACTS / "system_pods.yaml"))


@dataclass(frozen=True)
class Share:
    """A number of pods with the CPU (millicores) and the memory (MiB) that they request, or that a node offers."""

    pods: int
    cpu_millicores: int
    memory_mib: int

    def __add__(self, other: Share) -> Share:
        return Share(
            self.pods + other.pods,
            self.cpu_millicores + other.cpu_millicores,
            self.memory_mib + other.memory_mib,
        )

    def __mul__(self, times: int) -> Share:
        return Share(self.pods * times, self.cpu_millicores * times, self.memory_mib * times)

    def holds(self, other: Share) -> bool:
        """Return whether another share fits into this one."""
        return (
            self.pods >= other.pods
            and self.cpu_millicores >= other.cpu_millicores
            and self.memory_mib >= other.memory_mib
        )


def system_pods(platform: Platform, catalogue: Catalogue) -> tuple[SystemPods, ...]:
    """Return the pods of the platform's add-ons and charts on its system nodes."""
    facts = system_facts()
    workloads = [
        *(facts.addons[name] for name in addons_in_cluster(platform)),
        *(facts.charts[name] for name in chart_names(platform, catalogue)),
    ]
    return tuple(pods for workload in workloads for pods in workload.pods)


def room_on(instance: Instance, orchestrator: Orchestrator) -> Share:
    """Return the allocatable resources of a system node of this type.

    nodeadm reserves memory for as many pods as the type's interfaces have addresses, not for the configured number. The
    formulas' sources are in system_pods.yaml.
    """
    facts = system_facts().node
    cpu, kept, before = 1000 * instance.vcpus, 0, 0
    for reserved in facts.reserved_cpu:
        until = min(cpu, 1000 * (reserved.first or instance.vcpus))
        kept += max(0, until - before) * reserved.of_ten_thousand // 10_000
        before = until
    memory = 1024 * instance.memory_gib
    unusable = (
        math.ceil(memory * facts.vm_memory_overhead)
        + facts.reserved_memory_mib
        + facts.reserved_memory_mib_per_pod * instance.published_max_pods
        + facts.eviction_memory_mib
    )
    pods = min(SYSTEM_PODS, instance.pod_capacity(prefix_delegation=not orchestrator.is_hyperpod))
    return Share(pods, cpu - kept, max(0, memory - unusable))


def nodes_left(count: int) -> int:
    """Return the number of nodes that must carry all pods if one is lost. A single node is not assumed to be lost."""
    return max(1, count - 1)


def find_room(pods: Sequence[SystemPods], room: Share, nodes: int) -> tuple[str, ...]:
    """Return the names of workloads whose pods do not fit on this number of nodes with this room. Empty if all fit.

    The DaemonSets' pods come first on each node, because of their priority. Then the largest pod goes to the first node
    that has room for it, and so on. If this finds a placement, Kubernetes can place the pods.
    """
    taken = [_sum(_daemons(pods))] * nodes
    if not room.holds(taken[0]):
        return tuple(each.name for each in _daemons(pods))
    homeless = []
    for deployment in sorted(_deployments(pods), key=lambda each: (each.cpu_millicores, each.memory_mib), reverse=True):
        for _ in range(deployment.replicas or 0):
            node = next((at for at, load in enumerate(taken) if room.holds(load + deployment.each)), None)
            if node is None:
                homeless.append(deployment.name)
                break
            taken[node] += deployment.each
    return tuple(homeless)


class Misfit(NamedTuple):
    """Why the pods do not fit on the system nodes, and the remedy."""

    reason: str
    remedy: str


def misfit(platform: Platform, catalogue: Catalogue) -> Misfit | None:
    """Return why the system nodes cannot carry their pods, also after the loss of one of two or more, or None.

    All instance types of the platform must be in the catalogue.
    """
    nodes = platform.kubernetes_or_default.system_nodes
    pods, left = system_pods(platform, catalogue), nodes_left(nodes.count)
    room = room_on(catalogue[nodes.instance_type], platform.orchestrator)
    homeless = find_room(pods, room, left)
    if not homeless:
        return None
    asked, given = _sum(_daemons(pods)) * left + _sum(_deployments(pods)), room * left
    short = [
        f"{wanted:,} {unit}, and {_what_is_left(nodes.count)} {offered:,}"
        for wanted, offered, unit in (
            (asked.cpu_millicores, given.cpu_millicores, "millicores of CPU"),
            (asked.memory_mib, given.memory_mib, "MiB of memory"),
            (asked.pods, given.pods, "places for pods"),
        )
        if wanted > offered
    ]
    # If the sum fits, a single pod is larger than the room that is left on each node.
    told = "; ".join(short) or f"{asked.cpu_millicores:,} millicores of CPU, and {homeless[0]} finds no node with room"
    reason = f"the {asked.pods} pods of the add-ons and charts ask for {told}"
    return Misfit(reason, ", or ".join(_remedies(platform, catalogue, pods)))


def _what_is_left(count: int) -> str:
    if count == 1:
        return "the one node gives"
    return "when the other is lost one node gives" if count == 2 else f"when one is lost {count - 1} nodes give"


def _remedies(platform: Platform, catalogue: Catalogue, pods: Sequence[SystemPods]) -> Iterator[str]:
    """Yield the remedies: the smallest sufficient type of the family, and the smallest sufficient count."""
    nodes, orchestrator = platform.kubernetes_or_default.system_nodes, platform.orchestrator
    family = nodes.instance_type.split(".")[0]
    for instance in catalogue.family(family):
        if instance.accelerator is None and not find_room(
            pods, room_on(instance, orchestrator), nodes_left(nodes.count)
        ):
            yield f"use {instance.name}"
            break
    else:
        yield "use a larger type"
    room = room_on(catalogue[nodes.instance_type], orchestrator)
    # One deployment's pod per node is the widest possible distribution.
    most = nodes.count + 1 + _sum(_deployments(pods)).pods
    for count in range(nodes.count + 1, most + 1):
        if not find_room(pods, room, nodes_left(count)):
            yield f"write `count: {count}`"
            return


def _daemons(pods: Sequence[SystemPods]) -> list[SystemPods]:
    return [each for each in pods if each.kind == "daemonset"]


def _deployments(pods: Sequence[SystemPods]) -> list[SystemPods]:
    return [each for each in pods if each.kind == "deployment"]


def _sum(pods: Sequence[SystemPods]) -> Share:
    return sum((each.each * (each.replicas or 1) for each in pods), Share(0, 0, 0))
