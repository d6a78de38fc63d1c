"""The cluster, and whether this machine reaches it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Final

from trainway.doctor.checks.table import check
from trainway.doctor.inquiry import hand_off_of
from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.kubectl import failure
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error, not_checked, warning
from trainway.spec.errors import UsageError

SECONDS: Final = 10


@check("eks:DescribeCluster", "sagemaker:DescribeCluster")
def cluster(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The cluster is in service and has no issues, and kubectl reaches the Kubernetes API from this machine."""
    platform, aws = inquiry.platform, inquiry.aws
    if platform.orchestrator.is_hyperpod:
        answer = aws.ask("sagemaker", "describe_cluster", ClusterName=platform.name, absent=["ResourceNotFound"])
        status = answer["ClusterStatus"] if answer else None
        if status not in ("InService", "Updating", "SystemUpdating"):
            yield error(
                f"the HyperPod cluster {platform.name} is {status}" if status else f"there is no HyperPod cluster "
                f"{platform.name}",
                why=(answer or {}).get("FailureMessage") or "no job can run",
                fix="`aws sagemaker list-cluster-events` shows what failed; then `make deploy`",
            )  # fmt: skip
    if platform.orchestrator.is_kubernetes:
        answer = aws.ask("eks", "describe_cluster", name=platform.cluster_name, absent=["ResourceNotFoundException"])
        if answer is None:
            why, fix = "no job can run", "make deploy"
            if platform.adopted_cluster:
                fix = "create it again, or move the platform: docs/existing-cluster.md says how"
            yield error(f"there is no EKS cluster {platform.cluster_name}", why=why, fix=fix)
            return
        found = answer["cluster"]
        if found["status"] not in ("ACTIVE", "UPDATING"):
            why, fix = "no job can run", f"aws eks describe-cluster --name {platform.cluster_name} shows what is wrong"
            yield error(f"the EKS cluster {platform.cluster_name} is {found['status']}", why=why, fix=fix)
        for issue in found.get("health", {}).get("issues", []):
            fix = "https://docs.aws.amazon.com/eks/latest/APIReference/API_ClusterIssue.html says what each code means"
            yield warning(
                f"the EKS cluster {platform.cluster_name} has the issue {issue.get('code')}",
                why=issue.get("message", "EKS gives no message"),
                fix=fix,
            )
        yield from _reached(inquiry)


def _reached(inquiry: Inquiry) -> Iterator[AccountFinding]:
    what = f"the Kubernetes API of {inquiry.platform.name} does not answer kubectl"
    try:
        context = find_context(hand_off_of(inquiry))
        command = ["kubectl", "--context", context, f"--request-timeout={SECONDS}s", "get", "--raw", "/readyz"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
        if ran.returncode:
            raise failure(what, ran.stderr)
    except subprocess.TimeoutExpired:
        why = f"it did not answer within {2 * SECONDS} s"
        yield not_checked(what, why=why, fix="docs/kubernetes-access.md shows how to reach a private endpoint")
    except UsageError as failed:
        _, why, fix, *_ = (line.strip() for line in str(failed).splitlines())
        theirs = ". The emulated AWS has no Kubernetes API" if inquiry.aws.is_emulated else ""
        yield warning(what, why=why.removeprefix("why: ") + theirs, fix=fix.removeprefix("fix: "))
