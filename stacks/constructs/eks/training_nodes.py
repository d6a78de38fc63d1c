"""EKS managed node groups for training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_eks as eks
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.eks.launch_template import NodeConfig, training_launch_template
from stacks.constructs.eks.node_repair import node_repair_config
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.mig import mig_labels
from trainway.manifests.taints import taints
from trainway.spec.capacity.autoscaling import node_group_sizes, resource_tags
from trainway.spec.capacity.group_types import types_of
from trainway.spec.capacity.node_updates import UNAVAILABLE_NODES, update_strategy
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.kubernetes.ami_releases import minor_of
from trainway.spec.kubernetes.node_tags import node_tags
from trainway.spec.kubernetes.pod_network import pods_of_group
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import CapacityBlock
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator


def training_node_group(
    scope: Construct,
    *,
    control_plane: ControlPlane,
    catalogue: Catalogue,
    group: NodeGroup,
    subnet_id: str,
    security_group_ids: list[str],
    scripts: Sequence[str] = (),
) -> eks.CfnNodegroup:
    """Return a node group of the platform file as an EKS managed node group, whose nodes run `scripts` at boot.

    On demand, EKS uses the first available type. On Spot, it weighs prices and available capacity. The launch template
    is made for the first type, and fits all.
    """
    platform, types = control_plane.platform, types_of(group, catalogue)
    sizes, tags = node_group_sizes(platform, group, catalogue), resource_tags(platform, group, catalogue)
    instance = types[0]
    id = "".join(part.capitalize() for part in group.name.split("-"))
    template = training_launch_template(
        scope,
        f"{id}Template",
        name=platform.name,
        group=group,
        instance=instance,
        config=_node_config(control_plane, group, types),
        # An interface's groups replace the node group's default, so the cluster's own group has to be named, too.
        security_group_ids=[*security_group_ids, control_plane.cluster.security_group_id],
        tags=node_tags(platform, group.name),
        scripts=scripts,
    )
    block = isinstance(group.capacity, CapacityBlock)
    return eks.CfnNodegroup(
        scope,
        f"{id}Nodes",
        cluster_name=control_plane.cluster.name,
        # The node group has no name of its own, because a named group cannot be replaced: the new one needs the name
        # first.
        node_role=control_plane.node_role.role_arn,
        subnets=[subnet_id],
        instance_types=None if block else [each.name for each in types],
        capacity_type="CAPACITY_BLOCK" if block else "SPOT" if group.capacity == "spot" else "ON_DEMAND",
        scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
            min_size=sizes.least, desired_size=sizes.first, max_size=sizes.most
        ),
        launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
            id=template.ref, version=template.attr_latest_version_number
        ),
        update_config=eks.CfnNodegroup.UpdateConfigProperty(
            max_unavailable=UNAVAILABLE_NODES, update_strategy=update_strategy(group).value
        ),
        labels={NODES_LABEL: group.name, **mig_labels(group), **(_accelerator(instance) if tags else {})},
        tags={**tags, **control_plane.owner_tags} or None,
        taints=_taints(instance),
        node_repair_config=node_repair_config(platform.kubernetes_or_default.node_repair),
        **_machine_image(platform, group, instance),
    )


def _node_config(control_plane: ControlPlane, group: NodeGroup, types: Sequence[Instance]) -> NodeConfig:
    """Return the settings of nodeadm for nodes that may have any of the types."""
    return NodeConfig(
        pods=min(pods_of_group(group, each, Orchestrator.EKS) for each in types),
        coordinates=control_plane.cluster.coordinates if group.image_id else {},
        parallel_image_pull=control_plane.platform.kubernetes_or_default.parallel_image_pull,
    )


def _machine_image(platform: Platform, group: NodeGroup, instance: Instance) -> dict[str, Any]:
    """Return the properties of a node group that choose the release of EKS's AMI.

    Without a release in the lock, nodes keep the newest release of the day on which the group is created, even if the
    control plane gets a newer version.
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html (read 2026-11-21)
    """
    if group.image_id:
        # The launch template names the image.
        return {}
    release = platform.lock.ami_releases.get(group.name)
    return {
        "ami_type": _ami_type(instance),
        "release_version": release,
        "version": minor_of(release) if release else None,
    }


def _accelerator(instance: Instance) -> dict[str, str]:
    """Return the label by which the autoscaler waits for a new node's GPUs instead of counting none.

    https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md
    (Special note on GPU instances, read 2026-11-22)
    """
    nvidia = instance.accelerator is not None and instance.accelerator.vendor == "nvidia"
    return {"k8s.amazonaws.com/accelerator": instance.name} if nvidia else {}


def _ami_type(instance: Instance) -> str:
    """Return EKS's type of machine image for an instance type.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html (read 2026-11-21)
    """
    architecture = "ARM_64" if instance.architecture == "arm64" else "x86_64"
    variant = "STANDARD"
    if instance.accelerator is not None:
        variant = "NEURON" if instance.accelerator.vendor == "neuron" else "NVIDIA"
    return f"AL2023_{architecture}_{variant}"


def _taints(instance: Instance) -> list[eks.CfnNodegroup.TaintProperty] | None:
    """Return the taints of the instance type in EKS' spelling, or None."""
    found = [
        eks.CfnNodegroup.TaintProperty(key=each["key"], value=each["value"], effect="NO_SCHEDULE")
        for each in taints(instance)
    ]
    return found or None
