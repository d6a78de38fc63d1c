"""The pod of each node of a run, whichever kind of object makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from trainway.launch.kubernetes.process import DIRECTORY, STOP_SECONDS, VOLUME
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL
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
    request, placement, paths = run.request, run.placement, run.on_nodes.paths
    hand_off = request.hand_off
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
            directory=paths.directory,
            opened=paths.opened,
            # Each pod has its own: the head of a RayJob requests less than the other nodes.
            resources=deepcopy(placement.resources),
            claims=request.allocation.group.claims,
            volumes=(
                Volume(VOLUME, str(DIRECTORY), {"configMap": {"name": request.run}}),
                *_local_disk(run.on_nodes.local_disk),
            ),
            tolerations=tolerations_of(run.instance),
            node_selector=placement.node_selector or None,
            affinity=placement.affinity,
            scheduler=run.share.scheduler,
            user=USER,
            stop_seconds=STOP_SECONDS,
            labels={RUN_LABEL: request.run, **MANAGED_BY},
            annotations=placement.pod_annotations,
        )
    )


def in_one_group(run: KubernetesRun, template: dict[str, Any]) -> dict[str, Any]:
    """Mark the pods of a run that has two kinds of pods, so that Kueue places both together. Return the template."""
    template["metadata"]["annotations"] |= run.placement.one_group
    return template


def _local_disk(directory: PurePosixPath | None) -> tuple[Volume, ...]:
    """Return the volume on the local disk of the node, which the kubelet deletes with the pod.

    The kubelet's own directory is on the RAID 0 of the disks (stacks/constructs/eks/launch_template.py). The volume
    outlives containers of the pod, and restarts of the node:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir (read 2026-11-29). A path of the node would outlive
    the pod as well, but the namespaces of teams allow none.
    """
    if directory is None:
        return ()
    return (Volume("local-disk", str(directory), {"emptyDir": {}}, writable=True),)
