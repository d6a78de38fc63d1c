"""A VPC with the subnets of the address plan and their routes, new or existing."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.constructs.network.flow_log import flow_log
from stacks.constructs.network.planned_subnet import add_ranges, planned_subnet
from trainway.spec.network.addressing import AddressPlan, Subnet
from trainway.spec.network.subnets import SubnetRole
from trainway.spec.sections.network import Network


class Vpc(Construct):
    """The VPC and its subnets, except those of node groups. In an existing VPC, only what the platform adds.

    `route_table_ids` are the route tables of its subnets. `private_route_table_id` is that of all subnets except the
    public ones: with a route to NAT in a private network, and without one in a closed network. It is the same table
    before and after a network is closed. L1 throughout: `ec2.Vpc` does not support zone IDs, and every subnet has its
    own planned size.
    """

    def __init__(self, scope: Construct, id: str, *, name: str, network: Network, plan: AddressPlan) -> None:
        super().__init__(scope, id)
        self._name, self._plan = name, plan
        existing = network.existing
        self.vpc_id = existing.vpc_id if existing else self._new_vpc()
        self._added = add_ranges(self, self.vpc_id, plan.added_for_all)
        self._subnet_ids: dict[str, str] = {}
        self.route_table_ids: list[str] = []
        self.nat_gateway_id: str | None = None
        if existing:
            self.private_route_table_id = existing.route_table_id or ""
        else:
            self.private_route_table_id = ec2.CfnRouteTable(self, "PrivateRoutes", vpc_id=self.vpc_id).ref
            if not network.is_closed:
                self.route_table_ids.append(self._routes_outward())
        for subnet in plan.subnets:
            if subnet.role is not SubnetRole.NODES and subnet.name not in self._subnet_ids:
                self._subnet(subnet, self.private_route_table_id)
        if self.private_route_table_id:
            self.route_table_ids.append(self.private_route_table_id)

    def subnet_ids(self, role: SubnetRole) -> list[str]:
        """Return the IDs of the subnets of one role, in the plan's order."""
        return [self._subnet_ids[subnet.name] for subnet in self._plan.of_role(role)]

    def _new_vpc(self) -> str:
        vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=str(self._plan.vpc_cidrs[0]),
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=[cdk.CfnTag(key="Name", value=self._name)],
        )
        flow_log(self, vpc_id=vpc.ref)
        return vpc.ref

    def _subnet(self, subnet: Subnet, route_table_id: str) -> None:
        made = planned_subnet(
            self,
            subnet,
            platform=self._name,
            vpc_id=self.vpc_id,
            route_table_id=route_table_id,
            added=self._added,
        )
        self._subnet_ids[subnet.name] = made.id

    def _routes_outward(self) -> str:
        """Create public subnets with an internet gateway, and NAT in the first of them for the private route table.

        Return the route table of the public subnets.
        """
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=self.vpc_id, internet_gateway_id=gateway.ref
        )
        public = ec2.CfnRouteTable(self, "PublicRoutes", vpc_id=self.vpc_id)
        route = ec2.CfnRoute(
            self,
            "PublicDefault",
            route_table_id=public.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        route.add_resource_dependency(attachment)
        for subnet in self._plan.of_role(SubnetRole.PUBLIC):
            self._subnet(subnet, public.ref)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        # One gateway, in the capacity's zone: jobs depend on that zone anyway, so a second one protects nothing.
        nat = ec2.CfnNatGateway(
            self,
            "NatGateway",
            subnet_id=self.subnet_ids(SubnetRole.PUBLIC)[0],
            allocation_id=address.attr_allocation_id,
        )
        nat.add_resource_dependency(attachment)
        self.nat_gateway_id = nat.ref
        ec2.CfnRoute(
            self,
            "PrivateDefault",
            route_table_id=self.private_route_table_id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )
        return public.ref
