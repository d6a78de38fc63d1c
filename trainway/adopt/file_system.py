"""Looks at an FSx for Lustre file system of yours, and describes it as `storage.lustre.existing`; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.spec.errors import usage_error
from trainway.spec.sections.existing import ExistingFileSystem
from trainway.spec.sections.storage import MIRRORED_PREFIXES

Response = Mapping[str, Any]
PERMISSIONS = "ec2:DescribeNetworkInterfaces, fsx:DescribeDataRepositoryAssociations and fsx:DescribeFileSystems"


def look_at_file_system(
    file_system_id: str, *, region: str, security_group_id: str | None = None
) -> ExistingFileSystem:
    """Return the section of the platform file for a file system as it is now.

    A deploy adds rules to one of the file system's security groups. `security_group_id` names it if there are several.

    Raises UsageError if AWS does not answer, or if the file system does not exist, is not Lustre, or has no capacity.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"{file_system_id} in {region} cannot be adopted"
    try:
        fsx, ec2 = boto3.client("fsx", region_name=region), boto3.client("ec2", region_name=region)
        (found,) = fsx.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
        if found["FileSystemType"] != "LUSTRE" or not found.get("StorageCapacity"):
            why = f"it is {found['FileSystemType']} of the class {found.get('StorageType')}"
            raise usage_error(what, why=why, fix="name an FSx for Lustre file system on SSD")
        links = fsx.describe_data_repository_associations(
            Filters=[{"Name": "file-system-id", "Values": [file_system_id]}]
        )["Associations"]
        interfaces = ec2.describe_network_interfaces(NetworkInterfaceIds=found["NetworkInterfaceIds"][:1])
    except ClientError as error:
        why = error.response["Error"]["Message"]
        raise usage_error(what, why=why, fix=f"name one that is there; it needs {PERMISSIONS}") from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(what, why=str(error), fix=fix) from None
    groups = [group["GroupId"] for each in interfaces["NetworkInterfaces"] for group in each["Groups"]]
    if security_group_id is None and len(groups) != 1:
        fix = f"name one with --security-group: {', '.join(groups)}"
        raise usage_error(what, why=f"its interfaces are in {len(groups)} security groups", fix=fix)
    if security_group_id is not None and security_group_id not in groups:
        raise usage_error(what, why=f"it is not in {security_group_id}", fix=f"use one of {', '.join(groups)}")
    return ExistingFileSystem(
        file_system_id=file_system_id,
        dns_name=found["DNSName"],
        mount_name=found["LustreConfiguration"]["MountName"],
        capacity_gib=found["StorageCapacity"],
        security_group_id=security_group_id or groups[0],
        associations={link["FileSystemPath"]: link["DataRepositoryPath"] for link in links if not _made_here(link)},
    )


def _made_here(link: Response) -> bool:
    """Return whether a stack of a platform created this data repository association. The stack also deletes it."""
    tags = {tag["Key"] for tag in link.get("Tags", [])}
    return "aws:cloudformation:stack-name" in tags and link["FileSystemPath"].strip("/") in MIRRORED_PREFIXES
