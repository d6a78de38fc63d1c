"""Name a resource for people: its name, as `--allow-replace` takes it, and its kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trainway.diff.compare import ResourceDiff
from trainway.diff.instance_groups import KIND

# In the words of the platform file. Other types are named as CloudFormation does, without `AWS::`.
KINDS: Final = {
    "AWS::EC2::LaunchTemplate": "launch template",
    "AWS::EC2::SecurityGroup": "security group",
    "AWS::EC2::Subnet": "subnet",
    "AWS::EC2::VPC": "VPC",
    "AWS::EC2::VPCEndpoint": "VPC endpoint",
    "AWS::ECR::Repository": "image repository",
    "AWS::EKS::AccessEntry": "access entry",
    "AWS::EKS::Addon": "add-on",
    "AWS::EKS::Cluster": "Kubernetes cluster",
    "AWS::EKS::Nodegroup": "node group",
    "AWS::FSx::DataRepositoryAssociation": "link to S3",
    "AWS::FSx::FileSystem": "file system",
    "AWS::KMS::Key": "key",
    "AWS::S3::Bucket": "bucket",
    "AWS::SageMaker::Cluster": "HyperPod cluster",
    "AWS::SageMaker::ComputeQuota": "quota",
    KIND: "node group",
}
NODE_LABEL: Final = "trainway.dev/nodes"
# A logical ID of the CDK ends with 8 characters of a hash.
_HASH: Final = re.compile(r"[0-9A-F]{8}$")


def printed_kind(kind: str) -> str:
    """Return the printed name of a resource type, for example `node group`."""
    return KINDS.get(kind, kind.removeprefix("AWS::"))


def printed_name(each: ResourceDiff, platform: str) -> str:
    """Return the name of a resource, for example `train`, `storage.lustre`, or `LogKey`."""
    properties = (each.before or each.after).get("Properties", {})
    return _by_meaning(each, properties, platform) or logical_name(each.id.logical_id)


def logical_name(logical_id: str) -> str:
    """Return a logical ID without the hash at its end."""
    return _HASH.sub("", logical_id)


def _by_meaning(each: ResourceDiff, properties: Mapping[str, Any], platform: str) -> str | None:
    match each.kind:
        case "AWS::EKS::Nodegroup":
            return properties.get("Labels", {}).get(NODE_LABEL) or _text(properties.get("NodegroupName"))
        case "instance group":
            return _text(properties.get("InstanceGroupName"))
        case "AWS::FSx::FileSystem":
            if properties.get("FileSystemType") != "LUSTRE":
                return "storage.home"
            # Which of two file systems it is, its tag says.
            tagged = _tag(each.after.get("Properties", properties))
            return (tagged or "").removeprefix(f"{platform}/") or "storage.lustre"
        case "AWS::EKS::Cluster":
            return "control-plane"
        case "AWS::SageMaker::Cluster":
            return "cluster"
        case "AWS::EC2::VPC":
            return "network"
        case "AWS::EKS::Addon":
            return _text(properties.get("AddonName"))
        case "AWS::SageMaker::ComputeQuota" | "AWS::SSM::Parameter":
            return _text(properties.get("Name"))
    return (_tag(properties) or "").removeprefix(f"{platform}/") or None


def _tag(properties: Mapping[str, Any]) -> str | None:
    """Return the value of the tag Name."""
    tags = properties.get("Tags")
    named = [tag.get("Value") for tag in tags if tag.get("Key") == "Name"] if isinstance(tags, list) else []
    return _text(named[0]) if named else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
