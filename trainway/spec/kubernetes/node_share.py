"""CPU and memory that a training pod can request if it has a node to itself."""

from __future__ import annotations

from collections.abc import Iterable

from trainway.spec.facts.instance import Instance
from trainway.spec.kubernetes.system_pods import Share, room_on, system_facts
from trainway.spec.sections.orchestrator import Orchestrator

# For AWS's pods that run only on accelerated nodes, which system_pods.yaml therefore does not count: device plugins,
# and the agents of HyperPod's health monitoring (500 millicores and 512 MiB each) and of its observability.
# helm_chart/HyperPodHelmChart/charts/health-monitoring-agent of aws/sagemaker-hyperpod-cli at 011ca92 (read 2026-11-22)
_ON_ACCELERATED = Share(0, 2000, 4096)
# The EFA installer of the nodes' images reserves huge pages, which the kubelet subtracts from the memory. The number is
# not published, so this is an allowance. https://github.com/ofiwg/libfabric/issues/9739 (read 2026-11-22)
_HUGE_PAGES_MIB = 12 * 1024
_MILLICORES = 1000


def share_of_node(types: Iterable[Instance], orchestrator: Orchestrator) -> tuple[int, int]:
    """Return the CPU (millicores) and the memory (MiB) that a pod can request on a node of any of the types.

    On an accelerated node it is the allocatable amount, less the requests of every DaemonSet. On other nodes it is a
    little more than half, because they also run pods of the add-ons. Two training pods never share a node.
    """
    shares = [_of_type(each, orchestrator) for each in types]
    return min(cpu for cpu, _ in shares), min(memory for _, memory in shares)


def _of_type(instance: Instance, orchestrator: Orchestrator) -> tuple[int, int]:
    room = room_on(instance, orchestrator)
    half = instance.vcpus * _MILLICORES // 2 + 1, room.memory_mib // 2 + 1
    if instance.accelerator is None:
        return half
    kept = _daemons() + _ON_ACCELERATED
    huge_pages = _HUGE_PAGES_MIB if instance.efa_interfaces else 0
    cpu, memory = room.cpu_millicores - kept.cpu_millicores, room.memory_mib - kept.memory_mib - huge_pages
    return max(cpu, half[0]), max(memory, half[1])


def _daemons() -> Share:
    """Return the sum of all DaemonSets of system_pods.yaml, including those that a platform does not install."""
    facts = system_facts()
    workloads = (*facts.addons.values(), *facts.charts.values())
    daemons = [pods.each for workload in workloads for pods in workload.pods if pods.kind == "daemonset"]
    return sum(daemons, Share(0, 0, 0))
