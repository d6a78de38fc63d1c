"""What AWS makes by itself beside a resource, and leaves when it is deleted: log groups, and roles of services.

No stack has them. docs/aws-side-effects.md lists them, with what no emulated service has.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.registry.schema import Properties
from emulator.services.service import Aws, ignoring

# The services that have their role in an account once one of their resources was created there.
# https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-service-linked-roles.html
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html
# https://docs.aws.amazon.com/prometheus/latest/userguide/using-service-linked-roles.html (all read 2026-11-30)
_ROLES = {
    "AWS::APS::Scraper": "scraper.aps.amazonaws.com",
    "AWS::EKS::Cluster": "eks.amazonaws.com",
    "AWS::EKS::Nodegroup": "eks-nodegroup.amazonaws.com",
    "AWS::FSx::FileSystem": "fsx.amazonaws.com",
    "AWS::SageMaker::Cluster": "hyperpod.sagemaker.amazonaws.com",
}


def make_beside(aws: Aws, kind: str, model: Properties) -> None:
    """Make what AWS makes beside a resource that was created or updated, unless it exists."""
    if service := _ROLES.get(kind):
        with ignoring("EntityAlreadyExists"):  # as moto says of a role that the account has
            aws.client("iam").create_service_linked_role(AWSServiceName=service)
    for group in _log_groups(kind, model):
        with ignoring("ResourceAlreadyExistsException"):
            aws.client("logs").create_log_group(logGroupName=group)


def _log_groups(kind: str, model: Properties) -> Iterator[str]:
    """Yield the names of the log groups that a resource's service writes to, and makes without retention."""
    if kind == "AWS::EKS::Cluster":
        # https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html (read 2026-11-30)
        if ((model.get("Logging") or {}).get("ClusterLogging") or {}).get("EnabledTypes"):
            yield f"/aws/eks/{model['Name']}/cluster"
    elif kind == "AWS::SageMaker::Cluster":
        # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-operate-slurm-cli-command.html
        # (read 2026-11-30)
        yield f"/aws/sagemaker/Clusters/{model['ClusterName']}/{model['ClusterArn'].rpartition('/')[2]}"
    elif kind == "AWS::CodeBuild::Project":
        # https://docs.aws.amazon.com/codebuild/latest/userguide/change-project.html (read 2026-11-30)
        logs = (model.get("LogsConfig") or {}).get("CloudWatchLogs") or {}
        if logs.get("Status", "ENABLED") == "ENABLED" and "GroupName" not in logs:
            yield f"/aws/codebuild/{model['Name']}"
    elif kind == "AWS::FSx::FileSystem":
        # https://docs.aws.amazon.com/fsx/latest/LustreGuide/cw-event-logging.html (read 2026-11-30)
        logs = (model.get("LustreConfiguration") or {}).get("LogConfiguration") or {}
        if logs.get("Level", "DISABLED") != "DISABLED" and "Destination" not in logs:
            yield "/aws/fsx/lustre"
