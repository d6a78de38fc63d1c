"""The network: a VPC over the named zones whose subnets fit what will live in them, and the EFA security group."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.efa_security_group import EfaSecurityGroup
from stacks.constructs.vpc import Vpc
from trainway.spec.addressing import plan_addresses
from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import NodeGroup, Platform
from trainway.spec.subnets import SubnetRole, node_subnet_name


class NetworkStack(cdk.Stack):
    """Everything that must exist before anything can have an address."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, catalogue: Catalogue, env: cdk.Environment
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: network")
        network = Vpc(self, "Network", name=platform.name, plan=plan_addresses(platform, catalogue))
        self.vpc_id = network.vpc.ref
        self.cluster_subnet_ids = network.subnet_ids(SubnetRole.CLUSTER)
        (self.storage_subnet_id,) = network.subnet_ids(SubnetRole.STORAGE)
        self._network = network
        self.efa_group_id = EfaSecurityGroup(self, "Efa", vpc_id=self.vpc_id).group_id

    def subnet_of(self, group: NodeGroup) -> str:
        """The id of the subnet that was sized for a node group."""
        return self._network.subnet_id(node_subnet_name(group))
