"""Service-linked roles, which AWS creates on first use if it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, note, warning
from trainway.spec.sections.capacity import capacity_kind

# https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks.html
# https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-nodegroups.html
# https://docs.aws.amazon.com/autoscaling/ec2/userguide/autoscaling-service-linked-role.html
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
# https://docs.aws.amazon.com/sagemaker/latest/dg/security-iam-awsmanpol-AmazonSageMakerHyperPodServiceRolePolicy.html
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-service-linked-roles.html (read 2026-11-25)
OF_EKS: Final = {
    "AWSServiceRoleForAmazonEKS": "eks.amazonaws.com",
    "AWSServiceRoleForAmazonEKSNodegroup": "eks-nodegroup.amazonaws.com",
    "AWSServiceRoleForAutoScaling": "autoscaling.amazonaws.com",
}
OF_HYPERPOD: Final = {"AWSServiceRoleForSageMakerHyperPod": "hyperpod.sagemaker.amazonaws.com"}
OF_FSX: Final = {"AWSServiceRoleForAmazonFSx": "fsx.amazonaws.com"}
OF_SPOT: Final = {"AWSServiceRoleForEC2Spot": "spot.amazonaws.com"}


@check("iam:GetRole")
def service_linked_roles(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The service-linked roles of EKS, Auto Scaling, FSx, HyperPod, and EC2 Spot exist, as far as they are used."""
    for name, service in _wanted(inquiry).items():
        if inquiry.aws.ask("iam", "get_role", RoleName=name, absent=["NoSuchEntity"]) is not None:
            continue
        command = f"aws iam create-service-linked-role --aws-service-name {service}"
        what = f"the service-linked role {name} does not exist"
        if name in OF_SPOT:
            why = "EC2 starts no Spot Instances without it, and the services that start them cannot create it"
            yield warning(what, why=why, fix=command)
        else:
            why = "AWS creates it on first use, in the role that deploys, which needs iam:CreateServiceLinkedRole"
            yield note(what, why=why, fix=f"nothing, or {command}")


def _wanted(inquiry: Inquiry) -> dict[str, str]:
    platform = inquiry.platform
    wanted = dict(OF_FSX) if platform.storage.lustre_by_key else {}
    if platform.orchestrator.is_kubernetes:
        wanted |= OF_EKS
    if platform.orchestrator.is_hyperpod:
        wanted |= OF_HYPERPOD
    elif any(capacity_kind(group.capacity) == "spot" for group in platform.node_groups):
        wanted |= OF_SPOT
    return wanted
