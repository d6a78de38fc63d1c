"""PriorityClasses of Kubernetes, for schedulers and operators that use the priorities of pods."""

from __future__ import annotations

from typing import Any

from trainway.manifests.kai import USUAL_PRIORITY
from trainway.spec.platform import Platform
from trainway.spec.sections.team import FAIR_SHARE

FOR_KAI = {"low": USUAL_PRIORITY // 2, "normal": USUAL_PRIORITY, "high": USUAL_PRIORITY * 3 // 2}


def priority_classes(platform: Platform) -> list[dict[str, Any]]:
    """Return `low`, `normal`, and `high`. Empty if no component uses them.

    The KAI scheduler does. HyperPod's training operator creates a Kueue workload for each part of an elastic job, which
    takes its priority from the pods. On HyperPod, the classes have the weights that the cluster's policy gives to these
    names. https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-elastic-training.html, Preemption by high
    priority job (read 2026-11-21)
    """
    values: dict[str, int] = {}
    if platform.kai:
        values = FOR_KAI
    elif platform.task_governance and platform.hyperpod_or_default.training_operator:
        values = FAIR_SHARE
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            # The queues decide about preemption. Kubernetes' own scheduler would preempt pods of any team.
            "preemptionPolicy": "Never",
            "description": f"{name.capitalize()} priority among the jobs of a team.",
        }
        for name, value in values.items()
    ]
