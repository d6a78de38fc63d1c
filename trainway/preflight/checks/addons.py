"""EKS add-ons, as EKS offers them for the cluster's version."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.kubernetes.addons import addon_names


@check("eks:DescribeAddonVersions")
def addons(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """EKS offers each add-on of the platform for the Kubernetes version, in the version of the lock if it has one."""
    platform = inquiry.platform
    version = platform.kubernetes_or_default.version
    for name in addon_names(platform):
        absent = ["ResourceNotFoundException", "InvalidParameterException"]
        pages = inquiry.aws.pages(
            "eks", "describe_addon_versions", kubernetesVersion=version, addonName=name, absent=absent
        )
        offered = [
            each["addonVersion"] for page in pages for addon in page["addons"] for each in addon["addonVersions"]
        ]
        pinned = platform.lock.addon_versions.get(name)
        if not offered:
            yield error(
                f"EKS offers no add-on {name} for Kubernetes {version} in {inquiry.aws.region}",
                why="the platform installs it",
                fix="use another Kubernetes version, or wait until EKS offers it",
                key=platform.kubernetes_version_key,
            )
        elif pinned and pinned not in offered:
            yield error(
                f"EKS does not offer {name} {pinned} for Kubernetes {version}",
                why=f"the lock has this version, and EKS offers {', '.join(offered)}",
                fix="run `trainway upgrade --addons`",
                key=platform.kubernetes_version_key,
            )
