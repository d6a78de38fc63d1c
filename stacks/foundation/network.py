"""The network: subnets sized for their contents, endpoints, and the security groups of nodes."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildNetwork
from stacks.constructs.network.node_security_groups import NodeSecurityGroups
from stacks.constructs.network.vpc import Vpc
from stacks.constructs.network.vpc_endpoints import gateway_endpoint, interface_endpoints
from stacks.foundation.offer import offer
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.network import endpoints
from trainway.spec.network.addressing import plan_addresses, service_cidr
from trainway.spec.network.proxy import proxy_variables
from trainway.spec.network.subnets import SubnetRole
from trainway.spec.platform import Platform


class NetworkStack(cdk.Stack):
    """The network that all other resources need, except the subnets of node groups."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, catalogue: Catalogue, env: cdk.Environment
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: network")
        self.plan = plan = plan_addresses(platform, catalogue)
        vpc = Vpc(self, "Network", name=platform.name, network=platform.network, plan=plan)
        self.service_cidr = str(service_cidr(platform, plan))
        self.vpc_id, self.route_table_id = vpc.vpc_id, vpc.private_route_table_id
        self.cluster_subnet_ids = vpc.subnet_ids(SubnetRole.CLUSTER)
        (self.storage_subnet_id,) = vpc.subnet_ids(SubnetRole.STORAGE)
        if endpoints.makes_gateway(platform):
            gateway_endpoint(vpc, platform=platform.name, vpc_id=self.vpc_id, route_table_ids=vpc.route_table_ids)
        if services := endpoints.interface_endpoints(platform, catalogue):
            interface_endpoints(
                vpc,
                services,
                platform=platform.name,
                vpc_id=self.vpc_id,
                cidrs=plan.vpc_cidrs,
                subnet_ids=self.cluster_subnet_ids,
            )
        groups = NodeSecurityGroups(self, "Efa", vpc_id=self.vpc_id, network=platform.network, vpc_cidrs=plan.vpc_cidrs)
        self.efa_group_id = groups.efa_id
        self.node_group_ids = groups.ids
        self._closed = platform.network.is_closed
        self._proxy = proxy_variables(platform)
        self.nat_gateway_id = vpc.nat_gateway_id
        offer(
            self,
            *([vpc.nat_gateway_id] if vpc.nat_gateway_id else []),
            self.vpc_id,
            self.route_table_id,
            *self.cluster_subnet_ids,
            self.storage_subnet_id,
            self.efa_group_id,
            *self.node_group_ids,
        )

    def build_network(self) -> BuildNetwork | None:
        """Return the network in which builds run: inside a closed network, or None if they may use the internet."""
        return self.inside() if self._closed or self._proxy else None

    def inside(self, *more_group_ids: str) -> BuildNetwork:
        """Return the network of a build that must run in the VPC, such as one that calls the cluster's API."""
        return BuildNetwork(
            self.vpc_id, self.cluster_subnet_ids, [self.node_group_ids[-1], *more_group_ids], self._proxy
        )
