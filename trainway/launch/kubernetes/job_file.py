"""The job file as a ConfigMap that every pod of the run mounts."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL
from trainway.launch.program.request import Request
from trainway.spec.errors import usage_error

VOLUME = "job-file"
DIRECTORY = PurePosixPath("/etc/trainway")
JOB_FILE = DIRECTORY / "job.yaml"
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation (read 2026-11-21)
MOST_BYTES = 2**20


def job_file(request: Request, namespace: str) -> dict[str, Any]:
    """The ConfigMap, which has the run's name; raises UsageError for a file that is too large for one."""
    if (count := sum(len(text.encode()) for text in request.program.files.values())) > MOST_BYTES:
        raise usage_error(
            f"the job file of {request.program.name} cannot be sent to Kubernetes",
            why=f"it has {count} bytes, and a ConfigMap at most {MOST_BYTES}",
            fix="shorten it",
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": {RUN_LABEL: request.run, **MANAGED_BY},
        },
        # A pod that starts again later reads what the first one read.
        "immutable": True,
        "data": dict(request.program.files),
    }
