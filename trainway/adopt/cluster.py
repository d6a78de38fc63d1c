"""Describes an existing EKS cluster as the section `kubernetes.existing`, without changing it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainway.adopt.network import describe_group
from trainway.spec.errors import usage_error
from trainway.spec.kubernetes.addons import BEFORE_NODES, ON_NODES, VPC_CNI
from trainway.spec.sections.existing import ExistingCluster
from trainway.spec.sections.tags import OWNER_TAG

Response = Mapping[str, Any]
PERMISSIONS = (
    "ec2:DescribeSecurityGroups, eks:DescribeAddon, eks:DescribeCluster, eks:DescribeNodegroup and eks:ListNodegroups"
)


def look_at_cluster(name: str, *, platform: str, region: str) -> ExistingCluster:
    """Return the cluster as it is now, without the add-ons and node groups that a deploy of the platform added.

    Raises UsageError if AWS cannot be asked, the cluster does not exist or is not active, or no platform can use it.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"the EKS cluster {name} in {region} cannot be adopted"
    try:
        eks, ec2 = boto3.client("eks", region_name=region), boto3.client("ec2", region_name=region)
        found = eks.describe_cluster(name=name)["cluster"]
        if reason := _unsuitable(found):
            raise usage_error(what, why=reason, fix="adopt another cluster, or let the platform create one")
        addons = {each: _addon(eks, name, each) for each in (*BEFORE_NODES, *ON_NODES)}
        group = describe_group(ec2, found["resourcesVpcConfig"]["clusterSecurityGroupId"])
        pages = eks.get_paginator("list_nodegroups").paginate(clusterName=name)
        listed = [each for page in pages for each in page["nodegroups"]]
        described = [eks.describe_nodegroup(clusterName=name, nodegroupName=each)["nodegroup"] for each in listed]
    except ClientError as error:
        why = error.response["Error"]["Message"]
        raise usage_error(what, why=why, fix=f"name a cluster that exists; you need {PERMISSIONS}") from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(what, why=str(error), fix=fix) from None
    theirs = {each: addon for each, addon in addons.items() if addon and not _ours(platform, addon)}
    network, settings = found["resourcesVpcConfig"], _settings(theirs.get(VPC_CNI))
    del group["vpc_id"]
    return ExistingCluster.model_validate(
        {
            "name": name,
            "arn": found["arn"],
            "version": found["version"],
            "vpc_id": network["vpcId"],
            # A cluster from before access entries has no setting, and allows none.
            "authentication_mode": found.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP"),
            "private_access": network["endpointPrivateAccess"],
            "endpoint": found["endpoint"],
            "certificate_authority": found["certificateAuthority"]["data"],
            "service_cidr": found["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
            "security_group": group,
            "oidc_issuer": found.get("identity", {}).get("oidc", {}).get("issuer"),
            "addons": {each: addon["addonVersion"] for each, addon in theirs.items()},
            "cni": {
                "prefix_delegation": _is_true(settings.get("env", {}).get("ENABLE_PREFIX_DELEGATION")),
                "network_policy": _is_true(settings.get("enableNetworkPolicy")),
            },
            "node_groups": sorted(each["nodegroupName"] for each in described if not _ours(platform, each)),
        }
    )


def _unsuitable(cluster: Response) -> str | None:
    """Return the reason why no platform can use the cluster, or None. Its owner cannot remove the reason."""
    if cluster["status"] not in ("ACTIVE", "UPDATING"):
        return f"it is {cluster['status']}"
    if cluster.get("connectorConfig"):
        return "it does not run in EKS, and is only registered there"
    if cluster.get("outpostConfig"):
        return "its control plane is on an Outpost"
    if cluster.get("computeConfig", {}).get("enabled"):
        return "it is in Auto Mode, in which EKS has its own networking and nodes"
    if cluster.get("kubernetesNetworkConfig", {}).get("ipFamily", "ipv4") != "ipv4":
        return "its pods have IPv6 addresses, and those of the platform have IPv4 addresses"
    return None


def _addon(eks: Any, cluster: str, name: str) -> Response | None:
    try:
        addon: Response = eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
    except eks.exceptions.ResourceNotFoundException:
        return None
    return addon


def _ours(platform: str, resource: Response) -> bool:
    """Return whether a deploy of the platform added the resource to the cluster."""
    return bool(resource.get("tags", {}).get(OWNER_TAG) == platform)


def _settings(addon: Response | None) -> dict[str, Any]:
    """Return the configuration values of an add-on, which are a JSON or YAML document."""
    import yaml

    text = (addon or {}).get("configurationValues") or "{}"
    try:
        settings = json.loads(text)
    except json.JSONDecodeError:
        settings = yaml.safe_load(text)
    return settings if isinstance(settings, dict) else {}


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"
