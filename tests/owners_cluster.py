"""An EKS cluster in the emulated account that another owner created before the platform."""

from __future__ import annotations

import json
from typing import Any

from emulator import Emulator
from tests.owners_vpc import Ids

NAME = "shared"
CNI_SETTINGS = {"env": {"ENABLE_PREFIX_DELEGATION": "true"}, "enableNetworkPolicy": "true"}
ADDONS = {"vpc-cni": "v1.21.1-eksbuild.1", "kube-proxy": "v1.34.0-eksbuild.2", "coredns": "v1.12.3-eksbuild.1"}


def make_cluster(client: Any, there: Ids, *, mode: str = "API_AND_CONFIG_MAP", private: bool = True) -> None:
    """Make the cluster with a node group in the VPC of tests/owners_vpc.py. `client` gives a client by its service."""
    trust = {"Version": "2012-10-17", "Statement": []}
    role = client("iam").create_role(RoleName="owners", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    client("eks").create_cluster(
        name=NAME,
        version="1.34",
        roleArn=role,
        resourcesVpcConfig={
            "subnetIds": [there["cluster-0"], there["cluster-1"]],
            "endpointPrivateAccess": private,
            "endpointPublicAccess": True,
        },
        kubernetesNetworkConfig={"serviceIpv4Cidr": "172.20.0.0/16"},
        accessConfig={"authenticationMode": mode},
        tags={"owner": "another-team"},
    )
    # As of a cluster that is older than EKS's rule to itself.
    group = client("eks").describe_cluster(name=NAME)["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    client("ec2").revoke_security_group_egress(GroupId=group, IpPermissions=itself)
    client("eks").create_nodegroup(
        clusterName=NAME,
        nodegroupName="theirs",
        nodeRole=role,
        subnets=[there["nodes"]],
        scalingConfig={"minSize": 1, "desiredSize": 2, "maxSize": 3},
    )


def addons_of_cluster(settings: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the add-ons of the cluster, for Emulator.hold."""
    common = {"clusterName": NAME, "status": "ACTIVE"}
    addons = [{"addonName": name, "addonVersion": version, **common} for name, version in ADDONS.items()]
    addons[0]["configurationValues"] = json.dumps(CNI_SETTINGS if settings is None else settings)
    return addons


def make_owners_cluster(emulator: Emulator, client: Any, there: Ids, **settings: Any) -> None:
    """Make the cluster and its add-ons."""
    make_cluster(client, there, **settings)
    emulator.hold(addons=addons_of_cluster())


def described(client: Any) -> str:
    """Return the descriptions of the cluster, its add-ons, its node group, and its security group as one text."""
    eks = client("eks")
    cluster = eks.describe_cluster(name=NAME)["cluster"]
    group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
    found = {
        "cluster": cluster,
        "addons": [eks.describe_addon(clusterName=NAME, addonName=name)["addon"] for name in ADDONS],
        "nodes": eks.describe_nodegroup(clusterName=NAME, nodegroupName="theirs")["nodegroup"],
        "node_groups": eks.list_nodegroups(clusterName=NAME)["nodegroups"],
        "security_group": client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"],
    }
    return json.dumps(found, sort_keys=True, default=str)
