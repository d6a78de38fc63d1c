"""The deep health checks of HyperPod's nodes, which an update of the cluster should not meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, warning

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceStatusDetails.html (read 2026-11-30)
IN_CHECK = "DeepHealthCheckInProgress"


@check("sagemaker:ListClusterNodes")
def health_checks(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """No deep health check runs on the nodes of the HyperPod cluster, while it would be updated.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-update-cluster.html
    (read 2026-11-30)
    """
    if not inquiry.platform.orchestrator.is_hyperpod:
        return
    name = inquiry.platform.name
    pages = inquiry.aws.pages("sagemaker", "list_cluster_nodes", ClusterName=name, absent=["ResourceNotFound"])
    checked = Counter(
        node["InstanceGroupName"]
        for page in pages
        for node in page["ClusterNodeSummaries"]
        if node["InstanceStatus"]["Status"] == IN_CHECK
    )
    for group, count in sorted(checked.items()):
        yield warning(
            f"HyperPod checks the health of {count} node{'s' if count > 1 else ''} of {group}",
            why="meanwhile, an update of the cluster may not work as expected, and a deploy with one can fail",
            fix="wait until `trainway doctor` says that they run: about two hours after a node was created",
        )
