"""Which of the kubeconfig's contexts is the platform's cluster: nothing is applied anywhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trainway.launch.kubernetes.kubectl import kubectl
from trainway.launch.kubernetes.who_shares import namespace_of
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff


def eks_arn(hand_off: HandOff) -> str:
    """Return the ARN of the EKS cluster. With HyperPod, the hand-off has the ARN of HyperPod's cluster instead.

    Both are called by the platform's name (stacks/clusters/control_plane.py, stacks/clusters/hyperpod_eks.py).
    """
    _, partition, _, region, account, _ = hand_off.cluster.arn.split(":", 5)
    return f"arn:{partition}:eks:{region}:{account}:cluster/{hand_off.cluster.name}"


def on_platform(hand_off: HandOff, team: str | None) -> Mapping[str, str]:
    """Return the context of this machine for the platform's cluster, and the namespace of a team.

    Contexts have other names on other machines, and so the record of a run has one that can be of another cluster
    here. Without a context for the cluster, kubectl gets the name that the AWS CLI would give it, and says so.
    """
    try:
        context = find_context(hand_off)
    except UsageError:
        context = eks_arn(hand_off)
    if not hand_off.cluster.namespaces or (team is None and len(hand_off.teams) > 1):
        # A run from before the platform had teams stays in the namespace that it was launched in.
        return {"context": context}
    return {"context": context, "namespace": namespace_of(hand_off, team)}


def find_context(hand_off: HandOff) -> str:
    """Return the context of a cluster's ARN, preferably the current one. Raises UsageError if there is none.

    The AWS CLI calls a cluster by its ARN in the kubeconfig, whatever the context is called.
    https://github.com/aws/aws-cli/blob/develop/awscli/customizations/eks/update_kubeconfig.py (read 2026-11-21)
    """
    arn, what = eks_arn(hand_off), f"{hand_off.platform} cannot be reached with kubectl"
    said = kubectl("config", "view", "--output=json", what=what)
    try:
        config = json.loads(said)
        contexts: dict[str, str] = {
            each["name"]: each["context"].get("cluster", "") for each in config.get("contexts") or ()
        }
        current: str = config.get("current-context", "")
    except (ValueError, KeyError, TypeError, AttributeError):
        why = "`kubectl config view --output=json` prints no kubeconfig"
        raise usage_error(what, why=why, fix="run it, and mend the kubeconfig or the kubectl of PATH") from None
    found = [name for name in (current, *contexts) if contexts.get(name) == arn]
    if not found:
        raise usage_error(
            what,
            why=f"no context of the kubeconfig is for {arn}",
            fix=f"aws eks update-kubeconfig --name {hand_off.cluster.name} --region {hand_off.region}",
        )
    return found[0]
