"""The Kubernetes version, as EKS has it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error, warning

SOON: Final = timedelta(days=60)


@check("eks:DescribeClusterVersions")
def kubernetes_version(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """EKS offers the Kubernetes version of the file, with standard support."""
    # An adopted cluster has its version already.
    if not inquiry.platform.orchestrator.is_kubernetes or inquiry.platform.adopted_cluster:
        return
    wanted, key = inquiry.platform.kubernetes_or_default.version, ("kubernetes", "version")
    pages = inquiry.aws.pages("eks", "describe_cluster_versions")
    offered = {
        each["clusterVersion"]: each
        for page in pages
        for each in page["clusterVersions"]
        if each.get("versionStatus") != "UNSUPPORTED"
    }
    if wanted not in offered:
        yield error(
            f"EKS does not offer Kubernetes {wanted} in {inquiry.aws.region}",
            why=f"it offers {', '.join(sorted(offered)) or 'none'}",
            fix="write one of them",
            key=key,
        )
        return
    end = offered[wanted].get("endOfStandardSupportDate")
    if end is not None and end - inquiry.now < SOON:
        ended = end <= inquiry.now
        yield warning(
            f"standard support of Kubernetes {wanted} {'ended' if ended else 'ends'} on {end:%Y-%m-%d}",
            why="EKS bills a cluster in extended support at a higher price, and upgrades it by itself at the end",
            fix="write a newer version; docs/upgrades.md has the steps for a platform that is deployed",
            key=key,
        )
