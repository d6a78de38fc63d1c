"""A VPC laid out by the address plan: subnets with their routes, in a new VPC or in one that exists."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.constructs.network.flow_log import flow_log
from trainway.spec.derived.addressing import AddressPlan, Subnet
from trainway.spec.derived.subnets import SubnetRole
from trainway.spec.sections.network import Network


class Vpc(Construct):
    """The VPC and its subnets; of one that exists, what the platform adds to it.

    `route_table_ids` are the tables that its subnets route by: in a private network with NAT behind them, in a closed
    one with nothing. L1 throughout: zones are given by id, which `ec2.Vpc` cannot take, and every subnet has its own
    planned size.
    """

    def __init__(self, scope: Construct, id: str, *, name: str, network: Network, plan: AddressPlan) -> None:
        super().__init__(scope, id)
        self._name, self._plan = name, plan
        existing = network.existing
        self.vpc_id = existing.vpc_id if existing else self._new_vpc()
        # Named by the range, so that one more leaves those that are in use as they are.
        self._added = {
            cidr: ec2.CfnVPCCidrBlock(self, f"Cidr{cidr.network_address}", vpc_id=self.vpc_id, cidr_block=str(cidr))
            for cidr in plan.added_cidrs
        }
        self._subnet_ids = {subnet.name: subnet.adopted.id for subnet in plan.subnets if subnet.adopted}
        self.route_table_ids: list[str] = []
        if existing:
            private = existing.route_table_id or ""
        elif network.is_closed:
            private = ec2.CfnRouteTable(self, "ClosedRoutes", vpc_id=self.vpc_id).ref
        else:
            private = self._routes_outward()
        for subnet in plan.subnets:
            if subnet.name not in self._subnet_ids:
                self._subnet(subnet, private)
        if private:
            self.route_table_ids.append(private)

    def subnet_id(self, name: str) -> str:
        """The id of the planned subnet of that name."""
        return self._subnet_ids[name]

    def subnet_ids(self, role: SubnetRole) -> list[str]:
        """The ids of the subnets of one role, in the plan's order."""
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
        logical = "".join(part.capitalize() for part in subnet.name.split("-"))
        resource = ec2.CfnSubnet(
            self,
            f"{logical}Subnet",
            vpc_id=self.vpc_id,
            availability_zone_id=subnet.zone,
            cidr_block=str(subnet.cidr),
            map_public_ip_on_launch=False,
            tags=[cdk.CfnTag(key="Name", value=f"{self._name}/{subnet.name}"), *_load_balancer_tags(subnet.role)],
        )
        for cidr, association in self._added.items():
            if subnet.cidr.subnet_of(cidr):
                resource.add_resource_dependency(association)
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{logical}Routes", subnet_id=resource.ref, route_table_id=route_table_id
        )
        self._subnet_ids[subnet.name] = resource.ref

    def _routes_outward(self) -> str:
        """The way out: public subnets behind an internet gateway, and in the first of them NAT for all others."""
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
        # One gateway, in the capacity's zone: jobs live and die with that zone, so a second one protects nothing.
        nat = ec2.CfnNatGateway(
            self,
            "NatGateway",
            subnet_id=self.subnet_ids(SubnetRole.PUBLIC)[0],
            allocation_id=address.attr_allocation_id,
        )
        nat.add_resource_dependency(attachment)
        private = ec2.CfnRouteTable(self, "PrivateRoutes", vpc_id=self.vpc_id)
        ec2.CfnRoute(
            self,
            "PrivateDefault",
            route_table_id=private.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )
        self.route_table_ids.append(public.ref)
        return private.ref


def _load_balancer_tags(role: SubnetRole) -> list[cdk.CfnTag]:
    """How the AWS Load Balancer Controller finds its subnets."""
    match role:
        case SubnetRole.PUBLIC:
            return [cdk.CfnTag(key="kubernetes.io/role/elb", value="1")]
        case SubnetRole.CLUSTER:
            return [cdk.CfnTag(key="kubernetes.io/role/internal-elb", value="1")]
        case SubnetRole.STORAGE | SubnetRole.NODES:
            return []
