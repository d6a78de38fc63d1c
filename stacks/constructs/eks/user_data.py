"""The user data of EC2 nodes of EKS: a NodeConfig, and scripts that run before the node's daemons start."""

from __future__ import annotations

from collections.abc import Sequence

BOUNDARY = "TRAINWAY"

# RDMA pins the buffers that it sends from. Kubernetes has no setting for locked memory: a container has the limit of
# the containerd that started it, which is 8 MiB by systemd's default. Jobs run as user 1000, for whom the capability
# IPC_LOCK has no effect, so that EFA fails to register memory and NCCL continues on TCP without an error.
#
# The script runs in cloud-final.service. nodeadm-run.service is ordered after that and restarts containerd, but it
# does not reload systemd's units, so the script does. NodeConfig's own `containerd.baseRuntimeSpec` cannot say
# "unlimited": nodeadm merges it as JSON with floating-point numbers, which turn 2^64 - 1 into a number that
# containerd does not read.
# https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037
# https://github.com/awslabs/amazon-eks-ami/blob/v20260724/templates/al2023/runtime/rootfs/etc/systemd/system/nodeadm-run.service
# https://github.com/awslabs/amazon-eks-ami/blob/v20260724/nodeadm/internal/daemon/systemd.go
# https://github.com/awslabs/amazon-eks-ami/blob/v20260724/nodeadm/internal/containerd/base_runtime_spec.go
# (all read 2026-11-22)
LOCKED_MEMORY = """\
#!/usr/bin/env bash
set -euo pipefail
mkdir -p /etc/systemd/system/containerd.service.d
cat >/etc/systemd/system/containerd.service.d/80-trainway-limits.conf <<'END'
[Service]
LimitMEMLOCK=infinity
END
systemctl daemon-reload
"""


def user_data(node_config: str, scripts: Sequence[str] = ()) -> str:
    """Return a MIME multi-part document of a NodeConfig (YAML) and of scripts, each with its interpreter line.

    nodeadm reads the NodeConfig, whose values take precedence over the node group's. cloud-init runs the scripts once,
    in this order, when the node boots for the first time.
    https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
    https://docs.cloud-init.io/en/latest/explanation/format/mime.html (both read 2026-11-22)
    """
    parts = [("application/node.eks.aws", node_config), *(("text/x-shellscript", script) for script in scripts)]
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{BOUNDARY}"\n\n'
    body = "".join(f"--{BOUNDARY}\nContent-Type: {kind}\n\n{text}\n" for kind, text in parts)
    return f"{head}{body}--{BOUNDARY}--\n"
