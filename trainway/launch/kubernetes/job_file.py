"""The job file as a ConfigMap that every pod of the run mounts."""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL
from trainway.spec.errors import usage_error

# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation (read 2026-11-21)
MOST_BYTES = 2**20


def job_file(run: KubernetesRun) -> dict[str, Any]:
    """Return the ConfigMap of a run, which has the run's name. Raises UsageError if the files are too large for it."""
    files = dict(run.files)
    if (count := sum(len(text.encode()) for text in files.values())) > MOST_BYTES:
        raise usage_error(
            f"the job file of {run.request.program.name} cannot be sent to Kubernetes",
            why=f"it has {count} bytes, and a ConfigMap at most {MOST_BYTES}",
            fix="shorten it",
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": run.request.run,
            "namespace": run.share.namespace,
            "labels": {RUN_LABEL: run.request.run, **MANAGED_BY},
        },
        # A pod that starts again later reads what the first one read.
        "immutable": True,
        "data": files,
    }
