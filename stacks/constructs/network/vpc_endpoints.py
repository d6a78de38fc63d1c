"""VPC endpoints, through which traffic to AWS services does not leave the VPC."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from trainway.spec.network.endpoints import GATEWAY

# For buckets of other accounts, such as ECR's layers, packages, agents' updates, and public corpora.
READS = ("s3:GetObject", "s3:GetObjectAttributes", "s3:GetObjectVersion", "s3:GetBucketLocation", "s3:ListBucket")


def gateway_endpoint(scope: Construct, *, platform: str, vpc_id: str, route_table_ids: list[str]) -> None:
    """Create the gateway endpoint of S3. It is free, and allows no writes to buckets of other accounts."""
    ec2.CfnVPCEndpoint(
        scope,
        "S3Endpoint",
        vpc_id=vpc_id,
        service_name=_service_name(scope, GATEWAY),
        vpc_endpoint_type="Gateway",
        tags=_named(platform, GATEWAY),
        route_table_ids=route_table_ids,
        policy_document=iam.PolicyDocument(statements=_gateway_statements()),
    )


def _gateway_statements() -> list[iam.PolicyStatement]:
    """Return the endpoint's policy: full access to own buckets, reading others, and signals to CloudFormation.

    Roles and buckets control what an identity may do. This policy controls where data may go, whichever identity sends
    it. https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html#bucket-policies-s3
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-setting-up-s3-gateway
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/vpc-interface-endpoints.html
    https://docs.aws.amazon.com/systems-manager/latest/userguide/ssm-agent-technical-details.html#ssm-agent-minimum-s3-permissions
    (all read 2026-11-21)
    """
    signals = f"arn:{cdk.Aws.PARTITION}:s3:::cloudformation-waitcondition-{cdk.Aws.REGION}/*"
    anybody = [iam.AnyPrincipal()]
    own = {"StringEquals": {"aws:ResourceAccount": cdk.Aws.ACCOUNT_ID}}
    return [
        iam.PolicyStatement(sid="OwnBuckets", principals=anybody, actions=["s3:*"], resources=["*"], conditions=own),
        iam.PolicyStatement(sid="ReadOthers", principals=anybody, actions=list(READS), resources=["*"]),
        iam.PolicyStatement(sid="Signals", principals=anybody, actions=["s3:PutObject"], resources=[signals]),
    ]


def interface_endpoints(
    scope: Construct,
    services: Iterable[str],
    *,
    platform: str,
    vpc_id: str,
    cidrs: Iterable[IPv4Network],
    subnet_ids: list[str],
) -> None:
    """Create an endpoint for each service, under the service's own name, for the given CIDR blocks of the VPC."""
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
