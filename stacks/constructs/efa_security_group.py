"""The security group without which EFA silently falls back to TCP."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class EfaSecurityGroup(Construct):
    """A group that lets everything in from itself and out to itself.

    EFA's traffic is checked against rules that name the group; an egress rule to 0.0.0.0/0 does not count for it. L1
    rules on purpose: `ec2.SecurityGroup` drops self-referencing egress when all egress is allowed, with a warning only.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html (read 2026-11-21)
    """

    def __init__(self, scope: Construct, id: str, *, vpc_id: str) -> None:
        super().__init__(scope, id)
        group = ec2.CfnSecurityGroup(
            self,
            "Group",
            group_description="Training nodes: all traffic among themselves, as EFA needs, and anything outward",
            vpc_id=vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(ip_protocol="-1", cidr_ip="0.0.0.0/0", description="Outward")
            ],
        )
        self.group_id = group.attr_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "FromItself",
            group_id=self.group_id,
            source_security_group_id=self.group_id,
            ip_protocol="-1",
            description="EFA: everything from the group itself",
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "ToItself",
            group_id=self.group_id,
            destination_security_group_id=self.group_id,
            ip_protocol="-1",
            description="EFA: everything to the group itself",
        )
