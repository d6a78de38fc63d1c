"""Volumes and file systems of HyperPod's nodes, and permissions for a volume key of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from stacks.constructs.iam.permissions import Permission, grant
from stacks.constructs.storage.home import HomeFileSystem
from stacks.constructs.storage.lustre import LustreFileSystem
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.storage import HOME_PATH, MOUNT_PATH

CfnCluster = sagemaker.CfnCluster
StorageConfig = CfnCluster.ClusterInstanceStorageConfigProperty

# Operations that HyperPod grants to EBS when Karpenter adds nodes: the page of `let_autoscaler_encrypt_volumes`.
GRANTED_TO_VOLUMES = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
    "RetireGrant",
)


def storage(volume_gib: int, key: str | None) -> list[StorageConfig]:
    """Return a second volume for images and scratch.

    The service owns the root volume and chooses its size. It is listed only to set its key.
    """
    volumes = [CfnCluster.ClusterEbsVolumeConfigProperty(volume_size_in_gb=volume_gib, volume_kms_key_id=key)]
    if key is not None:
        volumes.append(CfnCluster.ClusterEbsVolumeConfigProperty(root_volume=True, volume_kms_key_id=key))
    return [StorageConfig(ebs_volume_config=volume) for volume in volumes]


def mounts(lustre: LustreFileSystem, home: HomeFileSystem | None) -> list[StorageConfig]:
    """Return the file systems of Slurm's nodes, which the service mounts: one of each kind, and only on new nodes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ref.html#sagemaker-hyperpod-ref-slurm-fsx-config
    (read 2026-11-21)
    """
    fast = CfnCluster.ClusterFsxLustreConfigProperty(
        dns_name=lustre.dns_name, mount_name=lustre.mount_name, mount_path=MOUNT_PATH
    )
    configs = [StorageConfig(fsx_lustre_config=fast)]
    if home:
        own = CfnCluster.ClusterFsxOpenZfsConfigProperty(dns_name=home.dns_name, mount_path=HOME_PATH)
        configs.append(StorageConfig(fsx_open_zfs_config=own))
    return configs


def let_encrypt_volumes(role: iam.Role, settings: HyperPod) -> None:
    """Let the nodes' execution role grant EBS the volumes' key, through SageMaker and only for AWS's own use.

    The conditions are those that AWS requires in the key's policy for the same calls.
    https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html, Permissions (read 2026-11-21)
    """
    if settings.volume_key:
        grant(role, *_key_permissions(settings.volume_key))


def let_autoscaler_encrypt_volumes(role: iam.Role, settings: HyperPod) -> None:
    """Let Karpenter's role do the same for the nodes that it adds, with only the grants that volumes need.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-iam.html (read 2026-11-21)
    """
    if settings.volume_key:
        operations = {"ForAllValues:StringEquals": {"kms:GrantOperations": list(GRANTED_TO_VOLUMES)}}
        grant(role, *_key_permissions(settings.volume_key, operations))


def _key_permissions(key: str, grants: Mapping[str, Any] | None = None) -> list[Permission]:
    through = {"StringEquals": {"kms:ViaService": f"sagemaker.{cdk.Aws.REGION}.amazonaws.com"}}
    for_aws = {**through, "Bool": {"kms:GrantIsForAWSResource": "true"}, **(grants or {})}
    return [
        Permission(("kms:CreateGrant",), (key,), conditions=for_aws),
        Permission(("kms:DescribeKey",), (key,), conditions=through),
    ]
