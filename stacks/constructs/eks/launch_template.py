"""The launch template of accelerated nodes, with every EFA interface of the instance type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.constructs.eks.user_data import LOCKED_MEMORY, user_data
from trainway.manifests.taints import taints
from trainway.spec.facts.catalogue import Instance, InterfaceKind
from trainway.spec.kubernetes.pod_network import SYSTEM_PODS
from trainway.spec.sections.capacity import CapacityBlock, Reservation
from trainway.spec.sections.node_group import NodeGroup

# Pods are one hop further from the metadata service than the node. With more hops, they would get the credentials of
# the node's role. Pods of jobs and add-ons get credentials by EKS Pod Identity. The following run in the node's own
# network, where 1 is enough: the VPC CNI, kube-proxy, the Pod Identity agent, the node monitoring agent, the EFA device
# plugin, and aws-dranet. The FSx CSI driver runs in the pods' network: without the metadata service it reads its Region
# from its Kubernetes node. The other charts call no AWS service.
# https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
# https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/helm-chart-aws-fsx-csi-driver-1.17.0/pkg/cloud/metadata.go
# https://github.com/aws/eks-charts/tree/master/stable (aws-efa-k8s-device-plugin, aws-dranet, aws-vpc-cni)
# https://github.com/aws/eks-node-monitoring-agent/blob/main/charts/eks-node-monitoring-agent/templates/daemonset.yaml
# https://github.com/aws/eks-pod-identity-agent/blob/main/charts/eks-pod-identity-agent/templates/daemonset.yaml
# (all read 2026-11-22)
METADATA_HOPS = 1


@dataclass(frozen=True)
class NodeConfig:
    """Settings with which nodeadm configures a node at boot.

    `pods` is the maximum per node, for which the node's subnet was sized. `coordinates` are the cluster's, as nodeadm's
    ClusterDetails, for nodes of an image of your own: EKS passes them only to nodes of its own images.
    """

    pods: int
    coordinates: Mapping[str, str] = field(default_factory=dict)
    parallel_image_pull: bool = False


def training_launch_template(
    scope: Construct,
    id: str,
    *,
    name: str,
    group: NodeGroup,
    instance: Instance,
    config: NodeConfig,
    security_group_ids: list[str],
    tags: Mapping[str, str],
    scripts: Sequence[str] = (),
) -> ec2.CfnLaunchTemplate:
    """Return the launch template of a node group.

    Nodes run `scripts` when they boot. Instances and volumes get `tags` and a name. A change of anything here replaces
    the nodes of the group.

    L1: `ec2.LaunchTemplate` has no network interfaces. The catalogue defines the interface layout, card by card.
    """
    template = ec2.CfnLaunchTemplate
    block = isinstance(group.capacity, CapacityBlock)
    return template(
        scope,
        id,
        launch_template_data=template.LaunchTemplateDataProperty(
            # A Capacity Block requires the type in the template itself. Otherwise the node group names it.
            instance_type=group.instance_type if block else None,
            image_id=group.image_id,
            network_interfaces=_interfaces(instance, security_group_ids),
            capacity_reservation_specification=_reservation(group),
            instance_market_options=template.InstanceMarketOptionsProperty(market_type="capacity-block")
            if block
            else None,
            placement=template.PlacementProperty(
                group_name=ec2.CfnPlacementGroup(scope, f"{id}Placement", strategy="cluster").ref
            )
            if _in_one_placement_group(group, instance)
            else None,
            **_common(
                f"{name}/{group.name}",
                _node_config_yaml(config, instance),
                root_volume_gib=group.root_volume_gib,
                tags=tags,
                scripts=[LOCKED_MEMORY, *scripts],
            ),
        ),
    )


def system_launch_template(
    scope: Construct, id: str, *, name: str, instance: Instance, root_volume_gib: int, tags: Mapping[str, str]
) -> ec2.CfnLaunchTemplate:
    """Return the launch template of nodes for the cluster's own pods. EKS adds the cluster's security group."""
    config = _node_config_yaml(NodeConfig(SYSTEM_PODS), instance)
    common = _common(f"{name}/system", config, root_volume_gib=root_volume_gib, tags=tags)
    data = ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(**common)
    return ec2.CfnLaunchTemplate(scope, id, launch_template_data=data)


def _common(
    name: str, node_config: str, *, root_volume_gib: int, tags: Mapping[str, str], scripts: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the launch template properties that every node has."""
    template = ec2.CfnLaunchTemplate
    written = [{"key": key, "value": value} for key, value in (("Name", name), *sorted(tags.items()))]
    return {
        "block_device_mappings": [
            template.BlockDeviceMappingProperty(
                device_name="/dev/xvda",
                ebs=template.EbsProperty(
                    volume_size=root_volume_gib, volume_type="gp3", encrypted=True, delete_on_termination=True
                ),
            )
        ],
        "metadata_options": template.MetadataOptionsProperty(
            http_tokens="required",
            http_put_response_hop_limit=METADATA_HOPS,
        ),
        "user_data": Fn.base64(user_data(node_config, scripts)),
        "tag_specifications": [
            template.TagSpecificationProperty(resource_type=kind, tags=written) for kind in ("instance", "volume")
        ],
    }


def _interfaces(
    instance: Instance, security_group_ids: list[str]
) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty]:
    """Return the network interfaces. Secondary cards get efa-only interfaces, which take no address of the subnet."""
    return [
        ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
            network_card_index=interface.network_card_index,
            device_index=interface.device_index,
            interface_type=interface.kind.value,
            groups=security_group_ids,
            delete_on_termination=True,
        )
        for interface in instance.interfaces
    ]


def _node_config_yaml(config: NodeConfig, instance: Instance) -> str:
    """Return the NodeConfig document of an instance type's nodes, in YAML."""
    spec: dict[str, Any] = {"kubelet": {"config": {"maxPods": config.pods}}}
    if config.coordinates:
        spec["cluster"] = dict(config.coordinates)
        if found := taints(instance):
            # The node group's own taints would come after the first pods.
            # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (read 2026-11-21)
            listed = ",".join(f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in found)
            spec["kubelet"]["flags"] = [f"--register-with-taints={listed}"]
    if instance.instance_store:
        # Container images and pod storage go to the instance's own NVMe disks.
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
        if config.parallel_image_pull and instance.accelerator:
            # SOCI's parallel mode, which works for any image. Layers go to the same disks: below 600 MiB/s it would be
            # slower than one layer after the other.
            # https://aws.amazon.com/blogs/containers/introducing-seekable-oci-parallel-pull-mode-for-amazon-eks/
            # https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/doc/api.md#feature (both read 2026-11-21)
            # https://docs.convox.com/configuration/rack-parameters/aws/fast_image_pull_enable (read 2026-11-21)
            spec["featureGates"] = {"FastImagePull": True}
    document = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return yaml.safe_dump(document, sort_keys=False)


def _in_one_placement_group(group: NodeGroup, instance: Instance) -> bool:
    """Return whether the group gets a cluster placement group: EFA nodes do, except in reservations with their own."""
    efa = any(interface.kind is not InterfaceKind.INTERFACE for interface in instance.interfaces)
    return efa and isinstance(group.capacity, str)


def _reservation(group: NodeGroup) -> ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty | None:
    match group.capacity:
        case Reservation(reservation=identifier) | CapacityBlock(capacity_block=identifier):
            return ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
                capacity_reservation_target=ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
                    capacity_reservation_id=identifier
                )
            )
        case _:
            return None
