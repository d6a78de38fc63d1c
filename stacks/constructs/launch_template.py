"""The launch template of accelerated nodes: every EFA interface that the instance type has."""

from __future__ import annotations

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from trainway.spec.capacity import CapacityBlock, Reservation
from trainway.spec.catalogue import Instance, InterfaceKind
from trainway.spec.platform import NodeGroup

# nodeadm reads this when an AL2023 node boots: container images and pod storage go to the instance's own NVMe disks.
# https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ (read 2026-11-21)
NODE_CONFIG = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="TRAINWAY"

--TRAINWAY
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0

--TRAINWAY--
"""


def training_launch_template(
    scope: Construct, id: str, *, name: str, group: NodeGroup, instance: Instance, security_group_ids: list[str]
) -> ec2.CfnLaunchTemplate:
    """A launch template for one node group.

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
            network_interfaces=_interfaces(instance, security_group_ids),
            block_device_mappings=[
                template.BlockDeviceMappingProperty(
                    device_name="/dev/xvda",
                    ebs=template.EbsProperty(
                        volume_size=group.root_volume_gib,
                        volume_type="gp3",
                        encrypted=True,
                        delete_on_termination=True,
                    ),
                )
            ],
            capacity_reservation_specification=_reservation(group),
            instance_market_options=template.InstanceMarketOptionsProperty(market_type="capacity-block")
            if block
            else None,
            metadata_options=template.MetadataOptionsProperty(
                http_tokens="required",
                # Pods are one hop further from the metadata service than the node is.
                http_put_response_hop_limit=2,
            ),
            placement=template.PlacementProperty(
                group_name=ec2.CfnPlacementGroup(scope, f"{id}Placement", strategy="cluster").ref
            )
            if _placed_together(group, instance)
            else None,
            user_data=Fn.base64(NODE_CONFIG) if instance.instance_store else None,
            tag_specifications=[
                template.TagSpecificationProperty(
                    resource_type=kind, tags=[{"key": "Name", "value": f"{name}/{group.name}"}]
                )
                for kind in ("instance", "volume")
            ],
        ),
    )


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
