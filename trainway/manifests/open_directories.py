"""The init container that makes directories of the file system writable for the user of a pod.

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
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [dict(mount)],
    }
