"""Pass the former Lustre file system to the delivery, without an export."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, regional_arn
from stacks.constructs.storage.lustre import LustreFileSystem

# Placeholders of manifests, and the last part of the parameter name that holds the value.
PARTS = {
    "TRAINWAY_FORMER_FSX_ID": "id",
    "TRAINWAY_FORMER_FSX_DNS_NAME": "dns-name",
    "TRAINWAY_FORMER_FSX_MOUNT_NAME": "mount-name",
}


def tell_former(scope: Construct, platform: str, former: LustreFileSystem) -> None:
    """Write the ID, the DNS name, and the mount name of a file system to SSM parameters.

    An export that the cluster's stack imported would keep CloudFormation from deleting the file system, because the
    stack of the file systems is deployed first.
    """
    values = {"id": former.file_system_id, "dns-name": former.dns_name, "mount-name": former.mount_name}
    for name, parameter in former_parameters(platform).items():
        ssm.CfnParameter(
            scope,
            # The same for every former file system, so that only one parameter of a name exists at a time.
            "Former" + PARTS[name].title().replace("-", ""),
            name=parameter,
            type="String",
            description="Written by the deploy, read by the delivery to the cluster.",
            value=values[PARTS[name]],
        )


def former_parameters(platform: str) -> Mapping[str, str]:
    """Return the SSM parameter of each placeholder for the former file system."""
    return {name: f"/trainway/{platform}/former-lustre/{part}" for name, part in PARTS.items()}


def read_former(platform: str) -> Permission:
    """Return the permission to read those parameters."""
    arns = (regional_arn("ssm", f"parameter{name}") for name in former_parameters(platform).values())
    return Permission(("ssm:GetParameters",), tuple(arns))
