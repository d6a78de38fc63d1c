"""The pod of a training job, a training runtime, or a workspace: the one function that writes its specification.

Each caller says in a `Pod` what differs: its image, command, devices, and rights. Everything else is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainway.manifests.lustre_volume import CLAIM
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.manifests.open_directories import OPENED, await_directory, open_directories
from trainway.manifests.team_directories import DIRECTORY_OF_NAMESPACE, NAMESPACE_OF_POD
from trainway.spec.sections.storage import MOUNT_PATH

# The image's user (container/Dockerfile). Nothing that a job does needs another, nor any capability.
USER = 1000
# The volume of a pod that mounts no file system.
NODE_VOLUME = "node-disk"
# The Cluster Autoscaler does not evict pods with this annotation to remove an underused node.
# https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/FAQ.md (read 2026-11-22)
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


@dataclass(frozen=True)
class Volume:
    """A volume of a pod beside the file system and the shared memory, mounted at `path`, read-only unless `writable`.

    `source` is the key of the volume's type with its content, for example `{"configMap": {"name": "job"}}`.
    """

    name: str
    path: str
    source: Mapping[str, Any]
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Pod:
    """The settings of a pod with one container. Kubernetes uses its default for each field that is not set.

    `name` is the container's name, and `image` its image. `mount_path` is where the container has the Lustre file
    system, and `claim` is the claim of that file system. Without a claim, the container has an empty directory of the
    node there, which is deleted with the pod. `directory` is the directory of the file system that the pod mounts.
    Without a directory, the pod mounts the whole file system, and the directories `opened` are writable for its user. A
    pod that does not mount the whole satisfies the Pod Security Standard `restricted`, and requires a `user`.
    `resources` are the container's `limits` and `requests`. `claims` names the ResourceClaimTemplates of its
    devices; a template that is named twice gives two claims. `shared_memory_gib` limits /dev/shm, in GiB.
    `tolerations`, `node_selector`, and `affinity` choose the nodes. `scheduler` is the name of the scheduler.
    `user` is the user and group ID under which all processes run, without any capability; None leaves that to the
    image. `stop_seconds` is the time in seconds from SIGTERM to SIGKILL.
    """

    name: str
    image: str
    command: Sequence[str] = ()
    environment: Sequence[Mapping[str, Any]] = ()
    ports: Sequence[Mapping[str, Any]] = ()
    readiness: Mapping[str, Any] | None = None
    mount_path: str = MOUNT_PATH
    claim: str | None = CLAIM
    directory: str | None = None
    opened: Sequence[str] = ()
    resources: Mapping[str, Mapping[str, int | str]] | None = None
    claims: tuple[str, ...] = ()
    shared_memory_gib: int | None = None
    volumes: tuple[Volume, ...] = ()
    tolerations: Sequence[Mapping[str, Any]] = ()
    node_selector: Mapping[str, str] | None = None
    affinity: Mapping[str, Any] | None = None
    service_account: str = SERVICE_ACCOUNT
    scheduler: str | None = None
    user: int | None = None
    stop_seconds: int | None = None
    restart_policy: str | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None


def pod_template(pod: Pod) -> dict[str, Any]:
    """Return the PodTemplateSpec: the metadata and the specification.

    The pod requests no huge pages. The image tells libfabric to use none, and no queue covers them, so that a job that
    requests them would wait forever.
    """
    claims = {f"devices-{number}": template for number, template in enumerate(pod.claims)}
    of_pod = [{"name": name, "resourceClaimTemplateName": template} for name, template in claims.items()]
    spec = _present(
        schedulerName=pod.scheduler,
        serviceAccountName=pod.service_account,
        nodeSelector=pod.node_selector,
        affinity=pod.affinity,
        tolerations=list(pod.tolerations),
        securityContext=_security(pod),
        terminationGracePeriodSeconds=pod.stop_seconds,
        resourceClaims=of_pod or None,
        initContainers=_first(pod),
        containers=[_container(pod, tuple(claims))],
        volumes=[
            _volume(pod),
            # NCCL and data workers share memory in it. A container's default of 64 MiB is too small for them.
            {"name": "shared-memory", "emptyDir": _present(medium="Memory", sizeLimit=_gib(pod.shared_memory_gib))},
            *({"name": each.name, **each.source} for each in pod.volumes),
        ],
        restartPolicy=pod.restart_policy,
    )
    metadata = _present(labels=pod.labels, annotations={**(pod.annotations or {}), **STAYS})
    return {"metadata": metadata, "spec": spec}


def _first(pod: Pod) -> list[dict[str, Any]] | None:
    """Return the init container. The root of a whole file system stays closed. Every user can write to an emptyDir.

    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir (read 2026-11-27)
    """
    if pod.claim is None:
        return None
    if pod.directory:
        first = await_directory(pod.image, _file_system(pod))
    else:
        first = open_directories(pod.image, _file_system(pod), (*OPENED, *pod.opened))
    return [_present(**first, env=_variables(pod) or None)]


def _volume(pod: Pod) -> dict[str, Any]:
    if pod.claim is None:
        return {"name": NODE_VOLUME, "emptyDir": {}}
    return {"name": "fsx", "persistentVolumeClaim": {"claimName": pod.claim}}


def _security(pod: Pod) -> dict[str, Any] | None:
    """Return the security context of the pod.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted (read 2026-11-27)
    """
    if pod.user is None:
        return None
    user = {"runAsNonRoot": True, "runAsUser": pod.user, "runAsGroup": pod.user}
    return user if _opens_as_root(pod) else {**user, "seccompProfile": {"type": "RuntimeDefault"}}


def _opens_as_root(pod: Pod) -> bool:
    return pod.claim is not None and pod.directory is None


def _container(pod: Pod, claims: tuple[str, ...]) -> dict[str, Any]:
    resources = {**(pod.resources or {}), **({"claims": [{"name": name} for name in claims]} if claims else {})}
    return _present(
        image=pod.image,
        name=pod.name,
        command=list(pod.command) or None,
        env=[*_variables(pod), *pod.environment] or None,
        ports=list(pod.ports) or None,
        readinessProbe=pod.readiness,
        resources=resources or None,
        securityContext=pod.user and {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        volumeMounts=[
            _file_system(pod),
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            *(
                {"name": each.name, "mountPath": each.path, **({} if each.writable else {"readOnly": True})}
                for each in pod.volumes
            ),
        ],
    )


def _file_system(pod: Pod) -> dict[str, Any]:
    mount = {"name": NODE_VOLUME if pod.claim is None else "fsx", "mountPath": pod.mount_path}
    if pod.directory is None:
        return mount
    return mount | {"subPathExpr" if pod.directory == DIRECTORY_OF_NAMESPACE else "subPath": pod.directory}


def _variables(pod: Pod) -> list[Mapping[str, Any]]:
    """Return the environment variables that the mount of the file system refers to."""
    return [NAMESPACE_OF_POD] if pod.directory == DIRECTORY_OF_NAMESPACE else []


def _gib(number: int | None) -> str | None:
    return None if number is None else f"{number}Gi"


def _present(**fields: Any) -> dict[str, Any]:
    """Return the fields that are set, in their order."""
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if value is not None
    }
