"""What Kubernetes counts as a failure of a job, and how often a job starts again."""

from __future__ import annotations

from typing import Any

# What a job file that says nothing has (training/config/life_cycle.py), which no stack may import.
RESTARTS = 10


def pod_failure_policy() -> dict[str, Any]:
    """Return the podFailurePolicy of a Job: a pod that is taken away is replaced and does not count as a failure.

    Kubernetes sets the condition DisruptionTarget on pods that are drained, evicted, or preempted, and on pods of nodes
    that are gone. The policy requires pods with `restartPolicy: Never`.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions (both read 2026-11-22)
    """
    taken_away = [{"type": "DisruptionTarget", "status": "True"}]
    return {"rules": [{"action": "Ignore", "onPodConditions": taken_away}]}


def restarted_as_a_whole(replicated_job: dict[str, Any], restarts: int) -> dict[str, Any]:
    """Return a JobSet's spec with one replicated job, which starts again `restarts` times when one of its pods fails.

    The Job itself gives up at the first failure that counts. JobSet then makes the Job and all of its pods again, as
    ranks cannot continue without the others. A Job's own backoffLimit would count every pod of one failure.
    https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/controllers/failure_policy.go (read 2026-11-22)
    """
    job = replicated_job["template"]["spec"]
    job["template"]["spec"]["restartPolicy"] = "Never"
    job |= {"backoffLimit": 0, "podFailurePolicy": pod_failure_policy()}
    return {"failurePolicy": {"maxRestarts": restarts}, "replicatedJobs": [replicated_job]}
