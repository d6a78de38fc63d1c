"""What the container of a workspace runs, and in which environment."""

from __future__ import annotations

from typing import Any

from trainway.extensions.workspace.definition import Workspace
from trainway.launch.program.environment import cluster_roots, platform_environment

PORT = 8888
TOKEN = "token"
# What pip is asked for where the image has no JupyterLab: release 4, whose names of settings are below.
JUPYTER = "jupyterlab>=4,<5"

# The environment is the owner's, on the file system, one for each version of Python: it begins with what the image has,
# and keeps what its owner installs. An environment of its own would not have the image's PyTorch, which is in a virtual
# environment itself; so a .pth file names its packages, and two variables the files that Jupyter's bring beside them:
# https://docs.jupyter.org/en/latest/use/jupyter-directories.html (read 2026-11-21).
#
# Jupyter listens on the pod's loopback, which `kubectl port-forward` reaches and other pods do not:
# https://github.com/containerd/containerd/blob/v2.1.0/internal/cri/server/sandbox_portforward_linux.go. It reads its
# token from the environment: https://jupyter-server.readthedocs.io/en/latest/operators/security.html (both read
# 2026-11-21).
SCRIPT = f"""set -eu
image=$(python -c 'import sys; print(sys.prefix)')
export JUPYTER_PATH="$image/share/jupyter" JUPYTER_CONFIG_PATH="$image/etc/jupyter"
mkdir -p "$HOME"
cd "$HOME"
environment="$HOME/.workspace/$(python -c 'import sys; print("python-%d.%d" % sys.version_info[:2])')"
if ! [ -x "$environment/bin/python" ]; then
  echo "making $environment"
  python -m venv "$environment"
  python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(
    "$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
  )/image.pth"
fi
export VIRTUAL_ENV="$environment" PATH="$environment/bin:$PATH"
if ! python -c 'import jupyterlab' 2>/dev/null; then
  echo "installing JupyterLab"
  python -m pip install --quiet --disable-pip-version-check '{JUPYTER}' || {{
    echo "the image has no JupyterLab, and pip finds none: start the workspace with an --index that it reaches" >&2
    exit 1
  }}
fi
exec python -m jupyterlab --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port_retries=0 \\
  --ServerApp.root_dir="$HOME" "$@"
"""
# Seconds between two looks at whether a kernel or a terminal is idle. Jupyter's own is five minutes.
_LOOK_SECONDS = 60


def command(idle_minutes: int) -> list[str]:
    """Return the container's command. `idle_minutes` is 0 for a workspace that runs to its end however idle it is.

    Kubernetes makes $( of $$(.
    """
    return [
        "sh",
        "-c",
        SCRIPT.replace("$(", "$$("),
        "workspace",
        f"--ServerApp.port={PORT}",
        *idle_settings(idle_minutes),
    ]


def idle_settings(minutes: int) -> list[str]:
    """Return the options of JupyterLab that end a workspace after so many minutes without use. 0: none.

    Jupyter ends idle kernels, also those that a browser shows, and idle terminals. A kernel that computes is not idle.
    When none is left, and nothing was asked of the server for that time, the server ends, and with it the Job.
    https://jupyter-server.readthedocs.io/en/latest/other/full-config.html (read 2026-11-23), and the help texts of
    jupyter_server 2.21.1.
    """
    if not minutes:
        return []
    seconds = minutes * 60
    return [
        f"--MappingKernelManager.cull_idle_timeout={seconds}",
        f"--MappingKernelManager.cull_interval={_LOOK_SECONDS}",
        "--MappingKernelManager.cull_connected=True",
        f"--TerminalManager.cull_inactive_timeout={seconds}",
        f"--TerminalManager.cull_interval={_LOOK_SECONDS}",
        f"--ServerApp.shutdown_no_activity_timeout={seconds}",
    ]


def readiness() -> dict[str, Any]:
    """Return the readiness probe. It runs in the pod, because the kubelet does not reach Jupyter from outside."""
    connects = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 1)"
    return {"exec": {"command": ["python", "-c", connects]}, "periodSeconds": 5, "timeoutSeconds": 5}


def environment(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the environment of a workspace. Locations mean the same as in a job."""
    variables = {
        **platform_environment(workspace.hand_off, cluster_roots(workspace.hand_off)),
        "HOME": str(workspace.home),
        **({"PIP_INDEX_URL": workspace.index} if workspace.index else {}),
    }
    token = {"name": workspace.name, "key": TOKEN}
    return [
        *({"name": name, "value": value} for name, value in sorted(variables.items())),
        {"name": "JUPYTER_TOKEN", "valueFrom": {"secretKeyRef": token}},
    ]
