"""The nodes of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error, note, warning

EVENTS = "aws sagemaker list-cluster-events --cluster-name {} --region {}"
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceStatusDetails.html (read 2026-11-25)
COMES = ("Pending", "SystemUpdating", "DeepHealthCheckInProgress")


@check("eks:ListNodegroups", "eks:DescribeNodegroup", "sagemaker:ListClusterNodes")
def nodes(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The node groups of EKS are active without issues, and the nodes of HyperPod run."""
    if inquiry.platform.orchestrator.is_kubernetes:
        yield from _of_eks(inquiry)
    if inquiry.platform.orchestrator.is_hyperpod:
        yield from _of_hyperpod(inquiry)


def _of_eks(inquiry: Inquiry) -> Iterator[AccountFinding]:
    name, absent = inquiry.platform.cluster_name, ["ResourceNotFoundException"]
    pages = inquiry.aws.pages("eks", "list_nodegroups", clusterName=name, absent=absent)
    for group in [each for page in pages for each in page["nodegroups"]]:
        answer = inquiry.aws.ask("eks", "describe_nodegroup", clusterName=name, nodegroupName=group, absent=absent)
        if answer is None:
            continue  # deleted meanwhile
        found = answer["nodegroup"]
        if found["status"] in ("CREATE_FAILED", "DELETE_FAILED", "DEGRADED"):
            why, fix = "its nodes are missing or take no jobs", "mend its issues, and run `make deploy`"
            yield error(f"the node group {group} is {found['status']}", why=why, fix=fix)
        for issue in found.get("health", {}).get("issues", []):
            fix = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html says what each code means"
            yield error(
                f"the node group {group} has the issue {issue.get('code')}",
                why=issue.get("message", "EKS gives no message"),
                fix=fix,
            )


def _of_hyperpod(inquiry: Inquiry) -> Iterator[AccountFinding]:
    name = inquiry.platform.name
    pages = inquiry.aws.pages("sagemaker", "list_cluster_nodes", ClusterName=name, absent=["ResourceNotFound"])
    found = [each for page in pages for each in page["ClusterNodeSummaries"]]
    coming = Counter[str]()
    for node in found:
        status, group = node["InstanceStatus"]["Status"], node["InstanceGroupName"]
        if status in COMES:
            coming[f"{group} {status}"] += 1
        elif status != "Running":
            yield warning(
                f"the node {node['InstanceId']} of {group} is {status}",
                why=node["InstanceStatus"].get("Message") or "SageMaker gives no message",
                fix=EVENTS.format(name, inquiry.aws.region),
            )
    for what, count in coming.items():
        yield note(f"{count} nodes are {what}", why="they take no jobs yet", fix="wait")
    running = Counter(
        node["InstanceGroupName"] for node in found if node["InstanceStatus"]["Status"] in ("Running", *COMES)
    )
    for index, each in enumerate(inquiry.platform.node_groups):
        if pages and running[each.name] < each.count:
            yield warning(
                f"{running[each.name]} of the {each.count} nodes of {each.name} run",
                why="capacity was missing, or nodes were lost",
                fix=EVENTS.format(name, inquiry.aws.region),
                key=("node_groups", index, "count"),
            )
