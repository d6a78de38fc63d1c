"""The hand-off: what a launcher needs to know, in one SSM parameter."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.foundation import Foundation
from trainway.spec import handoff
from trainway.spec.sections.storage import MOUNT_PATH


def write_hand_off(
    scope: Construct, foundation: Foundation, *, cluster_arn: str, namespaces: tuple[str, ...] = ()
) -> None:
    """Puts the hand-off document at the platform's parameter, and its name into the stack's outputs."""
    platform, lustre = foundation.platform, foundation.file_system.lustre
    file_system = lustre.file_system
    document = handoff.HandOff(
        platform=platform.name,
        orchestrator=platform.orchestrator.value,
        region=platform.region,
        bucket=foundation.storage.bucket.bucket_name,
        file_system=handoff.FileSystem(
            file_system_id=file_system.ref,
            dns_name=file_system.attr_dns_name,
            mount_name=file_system.attr_lustre_mount_name,
            mount_path=MOUNT_PATH,
            associations=tuple(lustre.associations),
        ),
        image_uri=foundation.registry.image_uri,
        cluster=handoff.Cluster(name=platform.name, arn=cluster_arn, namespaces=namespaces),
        node_groups=tuple(
            handoff.Nodes(
                name=group.name, instance_type=group.instance_type, count=group.count, max_count=group.largest
            )
            for group in platform.node_groups
        ),
        teams=tuple(team.name for team in platform.teams),
    )
    name = handoff.parameter_name(platform.name)
    ssm.CfnParameter(
        scope,
        "HandOff",
        name=name,
        type="String",
        # A standard parameter holds 4 KiB; a platform with many node groups says more.
        tier="Intelligent-Tiering",
        description="Written by the deploy, read by `trainway launch`.",
        value=cdk.Stack.of(scope).to_json_string(document.model_dump(mode="json")),
    )
    cdk.CfnOutput(scope, "HandOffParameter", value=name, description="The SSM parameter that launchers read")
