"""The EKS add-ons of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error, warning
from trainway.spec.derived.addons import addon_names

COMES = ("CREATING", "UPDATING")


@check("eks:DescribeAddon")
def deployed_addons(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each add-on of the platform is installed in the cluster, active, and without issues."""
    cluster = inquiry.platform.name
    for name in addon_names(inquiry.platform):
        absent = ["ResourceNotFoundException"]
        answer = inquiry.aws.ask("eks", "describe_addon", clusterName=cluster, addonName=name, absent=absent)
        if answer is None:
            why = "the platform installs it, and somebody has removed it, or the deploy did not end"
            yield error(f"the cluster has no add-on {name}", why=why, fix="make deploy")
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
