"""Trust policies of roles: a service on this account's behalf, the pods of one service account, or some nodes."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

# Services that name the account they act for when they assume a role, so that another account's resource cannot use the
# role (the confused deputy), and the page with the condition. All were read on 2026-11-21, except that of EventBridge
# Scheduler, only as quoted in trust policies of others, on 2026-11-22, those of EventBridge and Systems Manager on
# 2026-11-23, and those of CloudWatch and its logs on 2026-12-01.
SAYS_FOR_WHOM = {
    "cloudwatch": "https://github.com/aws/aws-cdk/blob/9338258c/packages/aws-cdk-lib/aws-cloudwatch/test/log-alarm.test.ts",
    "codebuild": "https://docs.aws.amazon.com/codebuild/latest/userguide/setting-up-service-role.html",
    "eks": "https://docs.aws.amazon.com/eks/latest/userguide/cross-service-confused-deputy-prevention.html",
    "events": "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-conditions.html",
    "logs": "https://github.com/aws/aws-cdk/blob/9338258c/packages/aws-cdk-lib/aws-cloudwatch/test/log-alarm.test.ts",
    "scheduler": "https://docs.aws.amazon.com/scheduler/latest/UserGuide/cross-service-confused-deputy-prevention.html",
    "ssm": "https://docs.aws.amazon.com/systems-manager/latest/userguide/cloud-connector-gcp-automation-assume-role.html",
    "vpc-flow-logs": "https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html",
}
# Services whose documented trust policies have no condition, and what would fail with one. Only an account itself can
# pass its role to a service: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
SAYS_NOTHING = {
    "codepipeline": "https://docs.aws.amazon.com/codepipeline/latest/userguide/pipelines-create-service-role-cli.html",
    "ec2": "An instance assumes its own role, and no service on somebody's behalf.",
    "hyperpod.sagemaker": "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html",
    "sagemaker": "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html has no "
    "condition for HyperPod, though training jobs have one; nodes that cannot have their role never come up.",
}


def service(name: str) -> iam.ServicePrincipal:
    """Return the service `<name>.amazonaws.com`, limited to this account if the service names the account."""
    for_us = {"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}} if name in SAYS_FOR_WHOM else None
    if not for_us and name not in SAYS_NOTHING:
        raise ValueError(f"{name}: look up whether the service says for whose account it acts, and write down where")
    return iam.ServicePrincipal(f"{name}.amazonaws.com", conditions=for_us)


def training_jobs() -> iam.ServicePrincipal:
    """Return SageMaker as the principal of training jobs of this account.

    It names the account, unlike for HyperPod's nodes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html (read 2026-11-21)
    """
    for_us = {"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}}
    return iam.ServicePrincipal("sagemaker.amazonaws.com", conditions=for_us)


def pods(*, cluster_arn: str, service_account: str, namespaces: Sequence[str]) -> iam.SessionTagsPrincipal:
    """Return the pods of one service account in some namespaces of one cluster, by EKS Pod Identity.

    Without the limits, anybody who can associate roles with service accounts could give this one to pods of any other
    cluster. https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html (read 2026-11-21)
    """
    asked = {
        "aws:RequestTag/eks-cluster-arn": cluster_arn,
        "aws:RequestTag/kubernetes-namespace": list(namespaces),
        "aws:RequestTag/kubernetes-service-account": service_account,
    }
    return iam.SessionTagsPrincipal(iam.ServicePrincipal("pods.eks.amazonaws.com", conditions={"StringEquals": asked}))


def nodes(*roles: iam.Role) -> iam.CompositePrincipal:
    """Return the principal of nodes with one of these roles. The nodes assume the trusting role for a job."""
    return iam.CompositePrincipal(*(iam.ArnPrincipal(role.role_arn) for role in roles))
