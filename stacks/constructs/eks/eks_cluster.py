"""The values of an EKS cluster that other constructs use, for a created and for an adopted cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_eks as eks


@dataclass(frozen=True)
class EksCluster:
    """An EKS cluster, by values that only a deploy may know.

    `security_group_id` is of the group that EKS creates with a cluster. `coordinates` are nodeadm's ClusterDetails.
    `resource` is None for an existing cluster, which no stack of the platform has.
    """

    name: str
    arn: str
    security_group_id: str
    coordinates: Mapping[str, str]
    resource: eks.CfnCluster | None
