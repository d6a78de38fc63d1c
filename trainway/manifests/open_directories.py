"""Containers by which directories of the file system become writable for the user of a pod.

FSx creates the root of a file system and the directories that are linked to S3 for root alone. So does the kubelet with
a `subPath` that is missing. The processes of a job do not run as root.

https://docs.aws.amazon.com/fsx/latest/LustreGuide/overview-dra-data-repo.html
https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/kubelet_pods.go (makeMounts; both read 2026-11-24)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainway.spec.sections.storage import MIRRORED_PREFIXES

NAME = "open-directories"
AWAIT_NAME = "await-directory"
_ROOT = {
    "runAsUser": 0,
    "runAsGroup": 0,
    "runAsNonRoot": False,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
# The directories at the root of a shared file system below which jobs and workspaces create directories.
OPENED = (*MIRRORED_PREFIXES, "workspaces")
# $0 is the mount path. With root squash, root can change nothing here. The job then says itself what it cannot write. A
# directory with another owner or mode stays unchanged. $$ is Kubernetes' way to write a $ before a parenthesis.
_OPEN = """\
cd "$0" || exit
for each in "$@"; do
  mkdir -p "$each" 2>/dev/null && { [ "$$(stat -c %u:%a "$each")" != 0:755 ] || chmod 1777 "$each"; } ||
    echo "WARNING: root cannot open $0/$each; create it with mode 1777 on a client without root squash"
done
"""
# A pod of a team waits for its directory, which a pod of the platform opens.
_WAIT = """\
until [ -w "$0" ]; do
  echo "$0 is not writable yet; a pod of the DaemonSet team-directories in the namespace trainway-file-system opens it"
  sleep 2
done
"""
# How often the directories are looked at, in seconds.
_PERIOD_SECONDS = 30


def open_directories(image: str, mount: Mapping[str, Any], directories: Sequence[str]) -> dict[str, Any]:
    """Return the init container, which runs `image`. `mount` is the mount of the file system in the pod.

    `directories` are relative to the mount, each before those below it.
    """
    return {
        "name": NAME,
        "image": image,
        "command": ["sh", "-c", _OPEN, mount["mountPath"], *directories],
        # Kubernetes counts the larger of this and what the containers request.
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": _ROOT,
        "volumeMounts": [dict(mount)],
    }


def keep_open(image: str, mount: Mapping[str, Any], directories: Sequence[str]) -> dict[str, Any]:
    """Return a container that opens the directories again and again, so that those are opened that are created later.

    The arguments are those of `open_directories`. The container requests nothing.
    """
    container = open_directories(image, mount, directories)
    del container["resources"]
    script = f"while :; do\n({_OPEN})\nsleep {_PERIOD_SECONDS}\ndone\n"
    return container | {"command": ["sh", "-c", script, mount["mountPath"], *directories]}


def await_directory(image: str, mount: Mapping[str, Any]) -> dict[str, Any]:
    """Return the init container of a pod that mounts the directory of its team. It waits until that is writable.

    The container is as restricted as the others of the pod: it has the pod's user, and no capability.
    """
    container = open_directories(image, mount, ())
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return container | {
        "name": AWAIT_NAME,
        "command": ["sh", "-c", _WAIT, mount["mountPath"]],
        "securityContext": security,
    }
