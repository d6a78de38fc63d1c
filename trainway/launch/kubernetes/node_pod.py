"""The pod of each node of a run, whichever kind of object makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainway.launch.kubernetes.placement import affinity, close_together, node_selector, resources
from trainway.launch.kubernetes.pod_directory import DIRECTORY, VOLUME
from trainway.launch.kubernetes.process import STOP_SECONDS
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL
from trainway.launch.platform.locations import directory_of_team, opened_directories
from trainway.launch.program.request import Request
from trainway.manifests.pod import USER, Pod, Volume, pod_template
from trainway.manifests.taints import tolerations_of


@dataclass(frozen=True)
class NodeContainer:
    """The container of a node's pod, as far as the kinds of objects differ in it.

    `environment` has the entries of `env`, `ports` those of `ports`, and `readiness` is the readiness probe.
    """

    name: str
    command: Sequence[str] = ()
    environment: Sequence[Mapping[str, Any]] = ()
    ports: Sequence[Mapping[str, Any]] = ()
    readiness: Mapping[str, Any] | None = None


def node_pod(run: KubernetesRun, container: NodeContainer) -> dict[str, Any]:
    """Return the template of a pod that has a node of the run to itself."""
    request, options, catalogue = run.request, run.options, run.catalogue
    hand_off, group = request.hand_off, request.allocation.group
    return pod_template(
        Pod(
            name=container.name,
            image=request.image,
            command=container.command,
            environment=container.environment,
            ports=container.ports,
            readiness=container.readiness,
            mount_path=hand_off.mount_path,
            claim=hand_off.file_system.claim if hand_off.file_system else None,
            directory=directory_of_team(hand_off, request.program.team),
            opened=opened_directories(hand_off, request.program.team, request.run),
            resources=resources(request, catalogue),
            claims=group.claims,
            volumes=(Volume(VOLUME, str(DIRECTORY), {"configMap": {"name": request.run}}), *_local_disk(request)),
            tolerations=tolerations_of(catalogue[group.instance_type]),
            node_selector=node_selector(request) or None,
            affinity=affinity(request, options),
            scheduler=run.share.scheduler,
            user=USER,
            stop_seconds=STOP_SECONDS,
            labels={RUN_LABEL: request.run, **MANAGED_BY},
            annotations=close_together(request, options),
        )
    )


def _local_disk(request: Request) -> tuple[Volume, ...]:
    """Return the volume on the local disk of the node, which the kubelet deletes with the pod.

    The kubelet's own directory is on the RAID 0 of the disks (stacks/constructs/eks/launch_template.py). The volume
    outlives containers of the pod, and restarts of the node:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir (read 2026-11-29). A path of the node would outlive
    the pod as well, but the namespaces of teams allow none.
    """
    if request.local_disk is None:
        return ()
    return (Volume("local-disk", str(request.local_disk), {"emptyDir": {}}, writable=True),)
