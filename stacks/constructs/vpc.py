"""A VPC laid out by the address plan: public, cluster and node subnets, with the routes and endpoints they need."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.permissions import Permission, grant
from trainway.spec.addressing import AddressPlan, Subnet
from trainway.spec.subnets import SubnetRole

# Image pulls are the bulk of what nodes fetch; these keep it off the NAT gateway, which bills by the byte.
INTERFACE_ENDPOINTS = ("ecr.api", "ecr.dkr", "sts", "logs", "ssm", "ssmmessages")


class Vpc(Construct):
    """The VPC and its subnets.

    L1 throughout: zones are given by id, which `ec2.Vpc` cannot take, and every subnet has its own planned size.
    """

    def __init__(self, scope: Construct, id: str, *, name: str, plan: AddressPlan) -> None:
        super().__init__(scope, id)
        primary, *secondary = plan.vpc_cidrs
        self.vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=str(primary),
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=[cdk.CfnTag(key="Name", value=name)],
        )
        # Named by the range, so that one more leaves those that are in use as they are.
        self._secondary = {
            cidr: ec2.CfnVPCCidrBlock(self, f"Cidr{cidr.network_address}", vpc_id=self.vpc.ref, cidr_block=str(cidr))
            for cidr in secondary
        }
        self._plan = plan
        self._name = name
        self._subnet_ids: dict[str, str] = {}
        public_route = self._public_route()
        for subnet in plan.of_role(SubnetRole.PUBLIC):
            self._subnet(subnet, public_route)
        private_route = self._private_route(self.subnet_ids(SubnetRole.PUBLIC)[0])
        for subnet in plan.subnets:
            if subnet.role is not SubnetRole.PUBLIC:
                self._subnet(subnet, private_route)
        self._endpoints([public_route.ref, private_route.ref])
        self._flow_log()

    def subnet_id(self, name: str) -> str:
        """The id of the planned subnet of that name."""
        return self._subnet_ids[name]

    def subnet_ids(self, role: SubnetRole) -> list[str]:
        """The ids of the subnets of one role, in the plan's order."""
        return [self._subnet_ids[subnet.name] for subnet in self._plan.of_role(role)]

    def _subnet(self, subnet: Subnet, route_table: ec2.CfnRouteTable) -> None:
        logical = "".join(part.capitalize() for part in subnet.name.split("-"))
        resource = ec2.CfnSubnet(
            self,
            f"{logical}Subnet",
            vpc_id=self.vpc.ref,
            availability_zone_id=subnet.zone,
            cidr_block=str(subnet.cidr),
            map_public_ip_on_launch=False,
            tags=[cdk.CfnTag(key="Name", value=f"{self._name}/{subnet.name}"), *_load_balancer_tags(subnet.role)],
        )
        for cidr, association in self._secondary.items():
            if subnet.cidr.subnet_of(cidr):
                resource.add_resource_dependency(association)
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{logical}Routes", subnet_id=resource.ref, route_table_id=route_table.ref
        )
        self._subnet_ids[subnet.name] = resource.ref

    def _public_route(self) -> ec2.CfnRouteTable:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=self.vpc.ref, internet_gateway_id=gateway.ref
        )
        table = ec2.CfnRouteTable(self, "PublicRoutes", vpc_id=self.vpc.ref)
        route = ec2.CfnRoute(
            self,
            "PublicDefault",
            route_table_id=table.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        route.add_resource_dependency(attachment)
        self._internet = attachment
        return table

    def _private_route(self, public_subnet_id: str) -> ec2.CfnRouteTable:
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        # One gateway, in the capacity's zone: jobs live and die with that zone, so a second one protects nothing.
        gateway = ec2.CfnNatGateway(
            self, "NatGateway", subnet_id=public_subnet_id, allocation_id=address.attr_allocation_id
        )
        gateway.add_resource_dependency(self._internet)
        table = ec2.CfnRouteTable(self, "PrivateRoutes", vpc_id=self.vpc.ref)
        ec2.CfnRoute(
            self,
            "PrivateDefault",
            route_table_id=table.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=gateway.ref,
        )
        return table

    def _endpoints(self, route_table_ids: list[str]) -> None:
        region = cdk.Stack.of(self).region
        ec2.CfnVPCEndpoint(
            self,
            "S3Endpoint",
            vpc_id=self.vpc.ref,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=route_table_ids,
        )
        group = ec2.CfnSecurityGroup(
            self,
            "EndpointGroup",
            group_description="VPC endpoints: HTTPS from inside the VPC",
            vpc_id=self.vpc.ref,
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp", from_port=443, to_port=443, cidr_ip=str(cidr), description="HTTPS from the VPC"
                )
                for cidr in self._plan.vpc_cidrs
            ],
        )
        for service in INTERFACE_ENDPOINTS:
            ec2.CfnVPCEndpoint(
                self,
                f"{service.title().replace('.', '')}Endpoint",
                vpc_id=self.vpc.ref,
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_endpoint_type="Interface",
                subnet_ids=self.subnet_ids(SubnetRole.CLUSTER),
                security_group_ids=[group.attr_group_id],
                private_dns_enabled=True,
            )

    def _flow_log(self) -> None:
        """Rejected traffic only: enough to find a missing rule, without paying for every RDMA handshake."""
        group = logs.LogGroup(
            self, "FlowLogs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        role = iam.Role(self, "FlowLogRole", assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"))
        deliver = ("logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams")
        grant(role, Permission(deliver, (group.log_group_arn,)))
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_type="VPC",
            resource_id=self.vpc.ref,
            traffic_type="REJECT",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )


def _load_balancer_tags(role: SubnetRole) -> list[cdk.CfnTag]:
    """How the AWS Load Balancer Controller finds its subnets."""
    match role:
        case SubnetRole.PUBLIC:
            return [cdk.CfnTag(key="kubernetes.io/role/elb", value="1")]
        case SubnetRole.CLUSTER:
            return [cdk.CfnTag(key="kubernetes.io/role/internal-elb", value="1")]
        case SubnetRole.STORAGE | SubnetRole.NODES:
            return []
