"""Security groups, launch templates, and EKS."""

from __future__ import annotations

import uuid

from emulator.errors import ResourceError
from emulator.registry.schema import Properties
from emulator.services.network import tag
from emulator.services.service import Aws, Service, ignoring, only_changed, without

# EC2's API groups a rule's peers by kind. CloudFormation has one peer per rule, named after the direction.
_PEERS = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
    "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
    "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}


def create_security_group(aws: Aws, model: Properties) -> Properties:
    ec2 = aws.client("ec2")
    group_id = ec2.create_security_group(
        GroupName=model["GroupName"], Description=model["GroupDescription"], VpcId=model["VpcId"]
    )["GroupId"]
    if model.get("SecurityGroupEgress"):
        # Own egress rules replace EC2's "allow all", which every new group has.
        ec2.revoke_security_group_egress(
            GroupId=group_id, IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
        )
    report = {"GroupId": group_id, "Id": group_id}
    _change_rules(aws, group_id, {}, model)
    tag(aws, group_id, model)
    return report


def update_security_group(aws: Aws, old: Properties, new: Properties) -> Properties:
    only_changed(old, new, ("SecurityGroupEgress", "SecurityGroupIngress", "Tags"))
    _change_rules(aws, new["GroupId"], old, new)
    tag(aws, new["GroupId"], new, old)
    return {}


def _change_rules(aws: Aws, group_id: str, old: Properties, new: Properties) -> None:
    for direction in ("ingress", "egress"):
        before, after = (model.get(f"SecurityGroup{direction.title()}", []) for model in (old, new))
        for rule in before:
            if rule not in after:
                revoke_rule(aws, direction, {**rule, "GroupId": group_id})
        for rule in after:
            if rule not in before:
                authorize_rule(aws, direction, {**rule, "GroupId": group_id})


def delete_security_group(aws: Aws, model: Properties) -> None:
    with ignoring("InvalidGroup.NotFound"):
        aws.client("ec2").delete_security_group(GroupId=model["GroupId"])


def authorize_rule(aws: Aws, direction: str, rule: Properties) -> Properties:
    """Add one rule, and return its ID as the report."""
    method = getattr(aws.client("ec2"), f"authorize_security_group_{direction}")
    response = method(GroupId=rule["GroupId"], IpPermissions=[_permission(rule)])
    return {"Id": response["SecurityGroupRules"][0]["SecurityGroupRuleId"]}


def revoke_rule(aws: Aws, direction: str, rule: Properties) -> None:
    """Remove one rule."""
    method = getattr(aws.client("ec2"), f"revoke_security_group_{direction}")
    with ignoring("InvalidPermission.NotFound", "InvalidGroup.NotFound"):
        method(GroupId=rule["GroupId"], IpPermissions=[_permission(rule)])


def _permission(rule: Properties) -> Properties:
    permission: Properties = {name: rule[name] for name in ("IpProtocol", "FromPort", "ToPort") if name in rule}
    for name, (kind, member) in _PEERS.items():
        if name in rule:
            description = {"Description": rule["Description"]} if "Description" in rule else {}
            permission[kind] = [{member: rule[name], **description}]
    return permission


def create_launch_template(aws: Aws, model: Properties) -> Properties:
    template = aws.call("ec2", "create_launch_template", without(model, "TagSpecifications"))["LaunchTemplate"]
    return {
        "LaunchTemplateId": template["LaunchTemplateId"],
        "LatestVersionNumber": str(template["LatestVersionNumber"]),
        "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
    }


def update_launch_template(aws: Aws, _old: Properties, new: Properties) -> Properties:
    # CloudFormation adds a version and does not change the default version.
    arguments = without(new, "TagSpecifications", "LaunchTemplateName")
    version = aws.call("ec2", "create_launch_template_version", arguments)["LaunchTemplateVersion"]
    return {"LatestVersionNumber": str(version["VersionNumber"])}


def delete_launch_template(aws: Aws, model: Properties) -> None:
    with ignoring("InvalidLaunchTemplateId.NotFound"):
        aws.client("ec2").delete_launch_template(LaunchTemplateId=model["LaunchTemplateId"])


def create_cluster(aws: Aws, model: Properties) -> Properties:
    cluster = aws.call("eks", "create_cluster", without(model, "Logging"))["cluster"]
    authority = cluster["certificateAuthority"]["data"]
    return {
        "Arn": cluster["arn"],
        "CertificateAuthority": {"Data": authority},
        "CertificateAuthorityData": authority,
        "ClusterSecurityGroupId": cluster["resourcesVpcConfig"]["clusterSecurityGroupId"],
        "Endpoint": cluster["endpoint"],
        "OpenIdConnectIssuerUrl": cluster["identity"]["oidc"]["issuer"],
    }


def update_cluster(aws: Aws, old: Properties, new: Properties) -> Properties:
    changeable = (
        "AccessConfig",
        "DeletionProtection",
        "Logging",
        "ResourcesVpcConfig",
        "Tags",
        "UpgradePolicy",
        "Version",
    )
    only_changed(old, new, changeable)
    if old.get("Version") != new.get("Version"):
        _raise_version(aws, new["Name"], new["Version"])
    if old["ResourcesVpcConfig"] != new["ResourcesVpcConfig"]:
        aws.call("eks", "update_cluster_config", {key: new[key] for key in ("Name", "ResourcesVpcConfig")})
    if new.get("Tags"):
        aws.client("eks").tag_resource(
            resourceArn=new["Arn"], tags={item["Key"]: item["Value"] for item in new["Tags"]}
        )
    return {}


def _raise_version(aws: Aws, name: str, version: str) -> None:
    """Give a cluster the next minor version, which EKS refuses while managed nodes have an older one than the cluster.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterVersion.html (read 2026-11-30)
    """
    from moto.eks.models import eks_backends

    # moto has no UpdateClusterVersion.
    cluster = eks_backends[aws.account][aws.region].clusters[name]
    if _minor(version) != _minor(cluster.version) + 1:
        raise ResourceError(f"Unsupported Kubernetes minor version update from {cluster.version} to {version}")
    older = sorted(group.nodegroup_name for group in cluster.nodegroups.values() if group.version != cluster.version)
    if older:
        raise ResourceError(
            f"Nodegroups {', '.join(older)} must be updated to match cluster version {cluster.version} before updating "
            "cluster version"
        )
    cluster.version = version


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def delete_cluster(aws: Aws, model: Properties) -> None:
    if model.get("DeletionProtection"):
        raise ResourceError(f"Cluster {model['Name']} cannot be deleted while deletion protection is enabled")
    with ignoring("ResourceNotFoundException"):
        aws.client("eks").delete_cluster(name=model["Name"])
    with ignoring("InvalidGroup.NotFound"):
        aws.client("ec2").delete_security_group(GroupId=model["ClusterSecurityGroupId"])


def create_node_group(aws: Aws, model: Properties) -> Properties:
    # A group without a version gets that of its cluster.
    version = (
        model.get("Version") or aws.client("eks").describe_cluster(name=model["ClusterName"])["cluster"]["version"]
    )
    group = aws.call("eks", "create_nodegroup", model | {"Version": version})["nodegroup"]
    return {"Arn": group["nodegroupArn"], "Id": f"{model['ClusterName']}/{model['NodegroupName']}"}


def update_node_group(aws: Aws, old: Properties, new: Properties) -> Properties:
    if new.get("Version") and old.get("Version") != new["Version"]:
        _update_version(aws, new)
    # moto's node group does not show other properties that CloudFormation changes in place (releases, tags).
    changed: Properties = {
        key: new[key] for key in ("ScalingConfig", "UpdateConfig") if key in new and old.get(key) != new[key]
    }
    labels, taints = ((old.get(key) or {}, new.get(key) or {}) for key in ("Labels", "Taints"))
    changed["Labels"] = {"AddOrUpdateLabels": labels[1], "RemoveLabels": sorted(set(labels[0]) - set(labels[1]))}
    changed["Taints"] = {
        "AddOrUpdateTaints": list(taints[1]),
        "RemoveTaints": [taint for taint in taints[0] if taint not in taints[1]],
    }
    aws.call("eks", "update_nodegroup_config", {key: new[key] for key in ("ClusterName", "NodegroupName")} | changed)
    return {}


def _update_version(aws: Aws, model: Properties) -> None:
    """Update the Kubernetes version of a node group. EKS refuses a version newer than the cluster's."""
    from moto.eks.models import eks_backends

    cluster = eks_backends[aws.account][aws.region].clusters[model["ClusterName"]]
    if _minor(model["Version"]) > _minor(cluster.version):
        raise ResourceError(
            f"Requested Nodegroup version {model['Version']} is not supported: the cluster has {cluster.version}"
        )
    next(
        group for group in cluster.nodegroups.values() if group.nodegroup_name == model["NodegroupName"]
    ).version = model["Version"]


def delete_node_group(aws: Aws, model: Properties) -> None:
    with ignoring("ResourceNotFoundException"):
        aws.call("eks", "delete_nodegroup", model)


def create_addon(aws: Aws, model: Properties) -> Properties:
    """Create an add-on. Its status is ACTIVE at once, and no software runs."""
    name, cluster = model["AddonName"], model["ClusterName"]
    arn = f"arn:aws:eks:{aws.region}:{aws.account}:addon/{cluster}/{name}/{uuid.uuid4()}"
    version = model.get("AddonVersion", "v1.0.0-eksbuild.1")
    addon = {"addonName": name, "clusterName": cluster, "addonVersion": version, "status": "ACTIVE", "addonArn": arn}
    aws.addons.append(addon | {"health": {"issues": []}})
    return {"Arn": arn}


def update_addon(aws: Aws, old: Properties, new: Properties) -> Properties:
    delete_addon(aws, old)
    return create_addon(aws, new) | {"Arn": old["Arn"]}


def delete_addon(aws: Aws, model: Properties) -> None:
    gone = (model["ClusterName"], model["AddonName"])
    aws.addons[:] = [each for each in aws.addons if (each["clusterName"], each["addonName"]) != gone]


SERVICES = {
    "AWS::EC2::LaunchTemplate": Service(create_launch_template, delete_launch_template, update_launch_template),
    "AWS::EC2::SecurityGroup": Service(create_security_group, delete_security_group, update_security_group),
    "AWS::EC2::SecurityGroupEgress": Service(
        lambda aws, model: authorize_rule(aws, "egress", model), lambda aws, model: revoke_rule(aws, "egress", model)
    ),
    "AWS::EC2::SecurityGroupIngress": Service(
        lambda aws, model: authorize_rule(aws, "ingress", model), lambda aws, model: revoke_rule(aws, "ingress", model)
    ),
    "AWS::EKS::Addon": Service(create_addon, delete_addon, update_addon, depth="record"),
    "AWS::EKS::Cluster": Service(create_cluster, delete_cluster, update_cluster),
    "AWS::EKS::Nodegroup": Service(create_node_group, delete_node_group, update_node_group),
}
