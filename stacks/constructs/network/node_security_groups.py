"""The security groups of nodes: one for EFA, without which EFA silently falls back to TCP, and one for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from trainway.spec.sections.network import Network

ANYWHERE = "0.0.0.0/0"


class NodeSecurityGroups(Construct):
    """The groups of every network interface of a node.

    `efa_id` holds the rules to and from itself, without egress to 0.0.0.0/0: HyperPod advises against that rule beside
    EFA, https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-11-21). Other
    outbound traffic has a group of its own. An adopted security group serves as both, with the rules that it lacks.
    """

    def __init__(
        self, scope: Construct, id: str, *, vpc_id: str, network: Network, vpc_cidrs: Iterable[IPv4Network]
    ) -> None:
        super().__init__(scope, id)
        adopted = network.existing.security_group if network.existing else None
        if adopted:
            self.efa_id, self.ids = adopted.id, [adopted.id]
            allow_itself(self, adopted.id, ingress=not adopted.from_itself, egress=not adopted.to_itself)
            return
        self.efa_id = self._group(
            "Group",
            vpc_id,
            "Training nodes: all traffic among themselves, as EFA needs",
            # EC2 gives a group without egress rules egress to everywhere. A rule to the host itself prevents that.
            [ec2.CfnSecurityGroup.EgressProperty(ip_protocol="-1", cidr_ip="127.0.0.1/32", description="Nowhere else")],
        )
        outward = self._group("Outward", vpc_id, "Training nodes: anything outward", _outward(network, vpc_cidrs))
        self.ids = [self.efa_id, outward]

    def _group(self, id: str, vpc_id: str, description: str, egress: list[ec2.CfnSecurityGroup.EgressProperty]) -> str:
        group = ec2.CfnSecurityGroup(
            self, id, group_description=description, vpc_id=vpc_id, security_group_egress=egress
        )
        allow_itself(group, group.attr_group_id)
        return group.attr_group_id


def allow_itself(scope: Construct, group_id: str, *, ingress: bool = True, egress: bool = True) -> None:
    """Allow all traffic from a group to itself, and out to itself.

    EFA's traffic is checked against rules that name the group. An egress rule to 0.0.0.0/0 does not count for it, and
    every group of an interface must have these rules. They are L1 on purpose: `ec2.SecurityGroup` drops
    self-referencing egress if all egress is allowed, with only a warning.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html (read 2026-11-21)
    https://github.com/awslabs/awsome-distributed-ai/pull/259 (read 2026-11-21)
    """
    if ingress:
        ec2.CfnSecurityGroupIngress(
            scope,
            "FromItself",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA: everything from the group itself",
        )
    if egress:
        ec2.CfnSecurityGroupEgress(
            scope,
            "ToItself",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA: everything to the group itself",
        )


def _outward(network: Network, vpc_cidrs: Iterable[IPv4Network]) -> list[ec2.CfnSecurityGroup.EgressProperty]:
    rule = ec2.CfnSecurityGroup.EgressProperty
    if not network.is_closed:
        return [rule(ip_protocol="-1", cidr_ip=ANYWHERE, description="Outward")]
    inside = [rule(ip_protocol="-1", cidr_ip=str(cidr), description="Inside the VPC") for cidr in vpc_cidrs]
    # S3's gateway endpoint is reached at S3's public addresses. No route leads to any others.
    s3 = rule(ip_protocol="tcp", from_port=443, to_port=443, cidr_ip=ANYWHERE, description="S3, by its endpoint")
    return [*inside, s3]
