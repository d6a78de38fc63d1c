"""Which of the kubeconfig's contexts is the platform's cluster: nothing is applied anywhere else."""

from __future__ import annotations

import json

from trainway.launch.kubernetes.kubectl import kubectl
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff


def eks_arn(hand_off: HandOff) -> str:
    """Return the ARN of the EKS cluster. With HyperPod, the hand-off has the ARN of HyperPod's cluster instead.

    Both are called by the platform's name (stacks/clusters/control_plane.py, stacks/clusters/hyperpod_eks.py).
    """
    _, partition, _, region, account, _ = hand_off.cluster.arn.split(":", 5)
    return f"arn:{partition}:eks:{region}:{account}:cluster/{hand_off.cluster.name}"


def find_context(hand_off: HandOff) -> str:
    """Return the context of a cluster's ARN, preferably the current one. Raises UsageError if there is none.

    The AWS CLI calls a cluster by its ARN in the kubeconfig, whatever the context is called.
    https://github.com/aws/aws-cli/blob/develop/awscli/customizations/eks/update_kubeconfig.py (read 2026-11-21)
    """
    arn, what = eks_arn(hand_off), f"{hand_off.platform} cannot be reached with kubectl"
    config = json.loads(kubectl("config", "view", "--output=json", what=what))
    contexts: dict[str, str] = {each["name"]: each["context"].get("cluster") for each in config.get("contexts") or ()}
    current: str = config.get("current-context", "")
    found = [name for name in (current, *contexts) if contexts.get(name) == arn]
    if not found:
        raise usage_error(
            what,
            why=f"no context of the kubeconfig is for {arn}",
            fix=f"aws eks update-kubeconfig --name {hand_off.cluster.name} --region {hand_off.region}",
        )
    return found[0]
