"""The workspace of the metrics that Slurm's controller collects."""

from __future__ import annotations

from aws_cdk import aws_aps as aps
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, grant
from stacks.constructs.monitoring.metrics_workspace import metrics_workspace
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform


def slurm_metrics(
    scope: Construct, *, platform: Platform, catalogue: Catalogue, alarms_topic: str, controller: iam.Role
) -> aps.CfnWorkspace:
    """Return the workspace, to which only the role of the controller may write.

    That is the role of all nodes, unless the controller has its own. Another role would require another role of an
    existing instance group, which HyperPod does not document to be possible.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-update-cluster.html
    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-onboard-ingest-metrics-remote-write-EC2.html
    (both read 2026-11-27)
    """
    workspace = metrics_workspace(scope, platform=platform, catalogue=catalogue, alarms_topic=alarms_topic, people=())
    grant(controller, Permission(("aps:RemoteWrite",), (workspace.attr_arn,)))
    return workspace
