"""Emulate HyperPod clusters. Their nodes run at once. Updates can be refused."""

from __future__ import annotations

import hashlib

from emulator.errors import ResourceError
from emulator.registry.schema import Properties
from emulator.services.service import Aws, Service

# "UpdateCluster may not work as expected" while these run, says AWS's page, and not what it does. Here it fails.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-deep-health-checks.html
_IN_CHECK = "DeepHealthCheckInProgress"
# What stays as an instance group was created.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-update-cluster.html
# (both read 2026-11-30)
_STAYS = ("ExecutionRole", "OverrideVpcConfig", "ThreadsPerCore")


def create_cluster(aws: Aws, model: Properties) -> Properties:
    """Create or update a cluster. `emulator/cluster_nodes.py` adds the nodes of the cluster to API responses."""
    name = model["ClusterName"]
    arn = f"arn:aws:sagemaker:{aws.region}:{aws.account}:cluster/{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    aws.clusters[name] = model | {"ClusterArn": arn}
    return {"ClusterArn": arn, "ClusterStatus": "InService"}


def delete_cluster(aws: Aws, model: Properties) -> None:
    aws.clusters.pop(model["ClusterName"], None)


def update_cluster(aws: Aws, old: Properties, new: Properties) -> Properties:
    """Refuse an update during deep health checks, and an update of a property that HyperPod cannot change."""
    name = old["ClusterName"]
    nodes = aws.client("sagemaker").list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
    if checked := [each["InstanceId"] for each in nodes if each["InstanceStatus"]["Status"] == _IN_CHECK]:
        raise ResourceError(f"Cluster {name} cannot be updated while deep health checks run on {', '.join(checked)}")
    before = {group["InstanceGroupName"]: group for group in old.get("InstanceGroups") or ()}
    for group in new.get("InstanceGroups") or ():
        had = before.get(group["InstanceGroupName"], group)
        if changed := [key for key in _STAYS if had.get(key) != group.get(key)]:
            raise ResourceError(
                f"{', '.join(changed)} of instance group {group['InstanceGroupName']} cannot be updated"
            )
    aws.clusters[name] = new
    return {}


SERVICES = {"AWS::SageMaker::Cluster": Service(create_cluster, delete_cluster, update_cluster)}
