"""The EKS cluster that a platform adopts."""

from __future__ import annotations

from constructs import Construct

from stacks.constructs.eks.eks_cluster import EksCluster
from stacks.constructs.network.node_security_groups import allow_itself
from trainway.spec.sections.existing import ExistingCluster


def adopted_cluster(scope: Construct, cluster: ExistingCluster) -> EksCluster:
    """Return an existing cluster by the values of the platform file.

    The only resources are the rules that EFA needs and that the cluster's security group lacks.
    """
    group = cluster.security_group
    allow_itself(scope, group.id, ingress=not group.from_itself, egress=not group.to_itself)
    return EksCluster(
        name=cluster.name,
        arn=cluster.arn,
        security_group_id=group.id,
        coordinates={
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": str(cluster.service_cidr),
        },
        resource=None,
    )
