"""The EKS add-ons of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error, warning
from trainway.spec.kubernetes.addons import addon_names, addons_in_cluster
from trainway.spec.sections.existing import SELF_MANAGED

COMES = ("CREATING", "UPDATING")


@check("eks:DescribeAddon")
def deployed_addons(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each add-on of the platform is installed in the cluster, active, and without issues."""
    cluster = inquiry.platform.cluster_name
    adopted, ours = inquiry.platform.adopted_cluster, addon_names(inquiry.platform)
    for name in addons_in_cluster(inquiry.platform):
        if adopted and adopted.addons.get(name) == SELF_MANAGED:
            continue
        absent = ["ResourceNotFoundException"]
        answer = inquiry.aws.ask("eks", "describe_addon", clusterName=cluster, addonName=name, absent=absent)
        if answer is None:
            why = "the platform installs it, and somebody has removed it, or the deploy did not end"
            fix = "make deploy"
            if name not in ours:
                why = "the cluster had it when the platform adopted the cluster, and the platform needs it"
                fix = f"install it again, or run `trainway adopt {cluster}`, so that the deploy installs it"
            yield error(f"the cluster has no add-on {name}", why=why, fix=fix)
            continue
        status, issues = answer["addon"]["status"], answer["addon"].get("health", {}).get("issues", [])
        if status != "ACTIVE" or issues:
            said = [f"{each.get('code')}: {each.get('message')}" for each in issues]
            told = warning if status in (*COMES, "ACTIVE") else error
            yield told(
                f"the add-on {name} is {status}",
                why="; ".join(said) or "EKS gives no message",
                fix=f"kubectl get pods --namespace kube-system; aws eks describe-addon --cluster-name {cluster} "
                f"--addon-name {name} --region {inquiry.aws.region}",
            )
