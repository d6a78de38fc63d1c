"""Settings for which failures of a job Kubernetes counts, and how often it restarts the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# The default of the job file (training/config/life_cycle.py), which no stack may import.
RESTARTS = 10


def pod_failure_policy(fatal: Sequence[int] = ()) -> dict[str, Any]:
    """Return the podFailurePolicy of a Job: a pod that is taken away is replaced and does not count as a failure.

    A pod that ends with one of the exit statuses `fatal` fails the Job for the reason PodFailurePolicy.

    Kubernetes sets the condition DisruptionTarget on pods that are drained, evicted, or preempted, and on pods of nodes
    that are gone. The policy requires pods with `restartPolicy: Never`.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions (both read 2026-11-22)
    """
    taken_away = [{"type": "DisruptionTarget", "status": "True"}]
    rules: list[dict[str, Any]] = [{"action": "Ignore", "onPodConditions": taken_away}]
    if fatal:
        rules.append({"action": "FailJob", "onExitCodes": {"operator": "In", "values": sorted(fatal)}})
    return {"rules": rules}


def success_policy(least: int) -> dict[str, Any]:
    """Return a successPolicy for an indexed Job: the Job succeeds when `least` of its pods have succeeded.

    Kubernetes then deletes the other pods. Without the policy, the Job waits for each of its pods, including a pod that
    no node can run. A failure that ends the Job takes precedence over the policy.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy (read 2026-11-27)
    """
    return {"rules": [{"succeededCount": least}]}


def restarted_as_a_whole(replicated_job: dict[str, Any], restarts: int, fatal: Sequence[int] = ()) -> dict[str, Any]:
    """Return a JobSet's spec with one replicated job, which starts again `restarts` times when one of its pods fails.

    A pod that ends with one of the exit statuses `fatal` ends the JobSet, because to start again cannot help.

    The Job itself gives up at the first failure that counts. JobSet then makes the Job and all of its pods again, as
    ranks cannot continue without the others. A Job's own backoffLimit would count every pod of one failure.
    https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/controllers/failure_policy.go (read 2026-11-22)
    """
    job = replicated_job["template"]["spec"]
    job["template"]["spec"]["restartPolicy"] = "Never"
    job |= {"backoffLimit": 0, "podFailurePolicy": pod_failure_policy(fatal)}
    policy: dict[str, Any] = {"maxRestarts": restarts}
    if fatal:
        # https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (FailurePolicyRule,
        # read 2026-11-23)
        policy["rules"] = [{"name": "fatal", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    return {"failurePolicy": policy, "replicatedJobs": [replicated_job]}
