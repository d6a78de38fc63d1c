"""Contents of launch.json for runs under Slurm, on Kubernetes, and on SageMaker."""

from __future__ import annotations

from typing import Any

_STARTED = "2026-11-24T10:00:00+00:00"
_TIMES = {"started": _STARTED, "first_started": _STARTED, "ended": None}
_PRICE = {
    "instance_type": "p5.48xlarge",
    "bought": "on demand",
    "region": "us-east-1",
    "usd_per_hour": 55.04,
    "as_of": "2026-11-20",
}
_NODES = {"count": 2, "instance_type": "p5.48xlarge", "price": _PRICE}
SLURM: dict[str, Any] = {
    "target": "slurm",
    "handle": {
        "cluster": "atlas",
        "arn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl",
        "region": "us-east-1",
        "user": "ada",
        "job": "17",
        "directory": "/fsx/runs/nightly-1",
    },
    "options": {"platform_file": "platform.yaml", "target": {}},
    "nodes": _NODES,
    **_TIMES,
}
KUBERNETES: dict[str, Any] = {
    "target": "kubernetes",
    "handle": {
        "context": "arn:aws:eks:us-east-1:123456789012:cluster/atlas",
        "namespace": "research",
        "kind": "TrainJob",
        "name": "nightly-1",
        "logs": "/fsx/runs/nightly-1/logs",
    },
    "options": {"platform_file": "platform.yaml", "target": {}},
    "nodes": _NODES,
    **_TIMES,
}
SAGEMAKER: dict[str, Any] = {
    "target": "sagemaker",
    "handle": {"name": "nightly-1", "region": "us-east-1"},
    "options": {"platform_file": "platform.yaml", "target": {}},
    "nodes": _NODES,
    **_TIMES,
}


def of_run(launch: dict[str, Any], run: str) -> dict[str, Any]:
    """Return the launch with the name of a run in its handle."""
    named = {"directory": f"/fsx/runs/{run}"} if "directory" in launch["handle"] else {"name": run}
    return launch | {"handle": launch["handle"] | named}
