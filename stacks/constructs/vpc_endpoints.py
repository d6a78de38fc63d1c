"""The ways to AWS services that do not leave the VPC."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from trainway.spec.endpoints import GATEWAY


def gateway_endpoint(scope: Construct, *, platform: str, vpc_id: str, route_table_ids: list[str]) -> None:
    """The gateway endpoint of S3: free, and in the way of nothing else."""
    ec2.CfnVPCEndpoint(
        scope,
        "S3Endpoint",
        vpc_id=vpc_id,
        service_name=_service_name(scope, GATEWAY),
        vpc_endpoint_type="Gateway",
        tags=_named(platform, GATEWAY),
        route_table_ids=route_table_ids,
    )


def interface_endpoints(
    scope: Construct,
    services: Iterable[str],
    *,
    platform: str,
    vpc_id: str,
    cidrs: Iterable[IPv4Network],
    subnet_ids: list[str],
) -> None:
    """An endpoint for each service, under the service's own name, that answers the given ranges of the VPC."""
    group = ec2.CfnSecurityGroup(
        scope,
        "EndpointGroup",
        group_description="VPC endpoints: HTTPS from inside the VPC",
        vpc_id=vpc_id,
        security_group_ingress=[
            ec2.CfnSecurityGroup.IngressProperty(
                ip_protocol="tcp", from_port=443, to_port=443, cidr_ip=str(cidr), description="HTTPS from the VPC"
            )
            for cidr in cidrs
        ],
    )
    for service in services:
        ec2.CfnVPCEndpoint(
            scope,
            f"{service.title().replace('.', '').replace('-', '')}Endpoint",
            vpc_id=vpc_id,
            service_name=_service_name(scope, service),
            vpc_endpoint_type="Interface",
            subnet_ids=subnet_ids,
            security_group_ids=[group.attr_group_id],
            private_dns_enabled=True,
            tags=_named(platform, service),
        )


def _named(platform: str, service: str) -> list[cdk.CfnTag]:
    return [cdk.CfnTag(key="Name", value=f"{platform}/{service}")]


def _service_name(scope: Construct, service: str) -> str:
    return f"com.amazonaws.{cdk.Stack.of(scope).region}.{service}"
