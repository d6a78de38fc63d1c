"""The subnets of the node groups. They are in the cluster's stack, because they come and go with the groups."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.network.planned_subnet import RoutedSubnet, add_ranges, planned_subnet
from stacks.foundation.network import NetworkStack
from trainway.spec.network.subnets import SubnetRole, node_subnet_name
from trainway.spec.sections.node_group import NodeGroup


class NodeSubnets(Construct):
    """One subnet for each node group, and the CIDR blocks of the VPC that only node groups need.

    If the network's stack exported the subnets, it could not delete one while the cluster's stack imports it, and the
    network's stack is deployed first. In one stack, CloudFormation deletes the nodes before their subnet.
    """

    def __init__(self, scope: Construct, id: str, *, platform: str, network: NetworkStack) -> None:
        super().__init__(scope, id)
        added = add_ranges(self, network.vpc_id, network.plan.added_for_nodes)
        self._subnets: dict[str, RoutedSubnet] = {
            subnet.name: planned_subnet(
                self,
                subnet,
                platform=platform,
                vpc_id=network.vpc_id,
                route_table_id=network.route_table_id,
                added=added,
            )
            for subnet in network.plan.of_role(SubnetRole.NODES)
        }

    def id_of(self, group: NodeGroup) -> str:
        """Return the ID of the subnet that was sized for a node group."""
        return self._subnets[node_subnet_name(group)].id

    def before(self, nodes: cdk.CfnResource, *groups: NodeGroup) -> None:
        """Make nodes of the groups wait until their subnets have routes."""
        for group in groups:
            if routes := self._subnets[node_subnet_name(group)].routes:
                nodes.add_resource_dependency(routes)
