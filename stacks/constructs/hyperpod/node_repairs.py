"""The permission of administrators to check, reboot, and replace nodes of HyperPod."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from trainway.spec.teams.personas import Persona

# What `trainway verify --repair` calls. All four have the cluster as their resource:
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html (read 2026-11-26)
_ACTIONS = (
    "sagemaker:BatchRebootClusterNodes",
    "sagemaker:BatchReplaceClusterNodes",
    "sagemaker:ListClusterNodes",
    "sagemaker:StartClusterHealthCheck",
)


def let_repair_nodes(scope: Construct, people: Mapping[Persona, iam.Role], hyperpod: sagemaker.CfnCluster) -> None:
    """Give the role of administrators, if it exists, the permission to repair nodes of the cluster.

    The policy is separate from the role's own policy, because it depends on the cluster. Administrators can therefore
    use Kubernetes while CloudFormation creates the cluster.
    """
    for persona, role in people.items():
        if persona.administers:
            statement = iam.PolicyStatement(actions=list(_ACTIONS), resources=[hyperpod.attr_cluster_arn])
            iam.Policy(scope, "NodeRepairs", roles=[role], statements=[statement])
