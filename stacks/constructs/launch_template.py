"""The launch template of accelerated nodes: every EFA interface that the instance type has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from trainway.spec.capacity import CapacityBlock, Reservation
from trainway.spec.catalogue import Instance, InterfaceKind
from trainway.spec.pod_network import SYSTEM_PODS
from trainway.spec.sections.node_group import NodeGroup

# What nodeadm reads when an AL2023 node boots; its values win over the node group's own.
# https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ (read 2026-11-21)
USER_DATA = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="TRAINWAY"

--TRAINWAY
Content-Type: application/node.eks.aws

{node_config}
--TRAINWAY--
"""


def training_launch_template(
    scope: Construct,
    id: str,
    *,
    name: str,
    group: NodeGroup,
    instance: Instance,
    pods: int,
    coordinates: Mapping[str, str],
    security_group_ids: list[str],
) -> ec2.CfnLaunchTemplate:
    """A launch template for one node group; `pods` is the most that a node runs, for which its subnet was sized.

    `coordinates` are the cluster's, as nodeadm's ClusterDetails: EKS tells them to nodes of its own images only.

    L1: `ec2.LaunchTemplate` has no network interfaces. The interface layout is the catalogue's, card by card.
    """
    template = ec2.CfnLaunchTemplate
    block = isinstance(group.capacity, CapacityBlock)
    return template(
        scope,
        id,
        launch_template_data=template.LaunchTemplateDataProperty(
            # A Capacity Block is refused unless the template itself names the type; elsewhere the node group does.
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
            if _placed_together(group, instance)
            else None,
            **_common(
                f"{name}/{group.name}",
                _node_config(instance, pods, coordinates if group.image_id else None),
                root_volume_gib=group.root_volume_gib,
            ),
        ),
    )


def system_launch_template(
    scope: Construct, id: str, *, name: str, instance: Instance, root_volume_gib: int
) -> ec2.CfnLaunchTemplate:
    """A launch template for the nodes that carry the cluster's own pods; EKS puts them into the cluster's group."""
    common = _common(f"{name}/system", _node_config(instance, SYSTEM_PODS), root_volume_gib=root_volume_gib)
    data = ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(**common)
    return ec2.CfnLaunchTemplate(scope, id, launch_template_data=data)


def _common(name: str, node_config: str, *, root_volume_gib: int) -> dict[str, Any]:
    """What every node has."""
    template = ec2.CfnLaunchTemplate
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
            # Pods are one hop further from the metadata service than the node is.
            http_put_response_hop_limit=2,
        ),
        "user_data": Fn.base64(USER_DATA.format(node_config=node_config)),
        "tag_specifications": [
            template.TagSpecificationProperty(resource_type=kind, tags=[{"key": "Name", "value": name}])
            for kind in ("instance", "volume")
        ],
    }


def _interfaces(
    instance: Instance, security_group_ids: list[str]
) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty]:
    """Secondary cards get interfaces that carry RDMA only, and so take no address of the subnet."""
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


def _node_config(instance: Instance, pods: int, coordinates: Mapping[str, str] | None = None) -> str:
    spec: dict[str, Any] = {"kubelet": {"config": {"maxPods": pods}}}
    if coordinates:
        spec["cluster"] = dict(coordinates)
        if instance.accelerator:
            # The node group's own taints would come after the first pods.
            # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (read 2026-11-21)
            taint = f"--register-with-taints={instance.accelerator.resource}=present:NoSchedule"
            spec["kubelet"]["flags"] = [taint]
    if instance.instance_store:
        # Container images and pod storage go to the instance's own NVMe disks.
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return yaml.safe_dump(config, sort_keys=False)


def _placed_together(group: NodeGroup, instance: Instance) -> bool:
    """A cluster placement group is for EFA nodes, and reservations bring their own placement."""
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
