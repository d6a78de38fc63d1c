"""The hand-off for launchers: an S3 object, and an SSM parameter that points to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.clusters.node_subnets import NodeSubnets
from stacks.clusters.training_job_people import training_job_permissions
from stacks.clusters.training_jobs import training_jobs
from stacks.constructs.iam.permissions import TOKEN, Permission, grant
from stacks.foundation import Foundation
from trainway import __version__
from trainway.manifests.device_claims import claims_of_a_node
from trainway.manifests.job_kinds import launch_kinds
from trainway.manifests.lustre_volume import CLAIM, claim_of
from trainway.manifests.queue_labels import queue_labels
from trainway.manifests.training_runtime import runtime_of
from trainway.spec import deployed_file, handoff, recorded_lock
from trainway.spec.derived.checkpoint_layout import GBPS_EACH, PART_BYTES, checkpoint_layout
from trainway.spec.derived.collection import Collector, collector_of
from trainway.spec.derived.devices import devices_of, ranks_of
from trainway.spec.derived.obtainable import nodes_that_grow, team_shares
from trainway.spec.derived.personas import Persona
from trainway.spec.derived.team_data import team_prefixes
from trainway.spec.derived.team_directories import team_directory
from trainway.spec.derived.team_nodes import queue_of
from trainway.spec.handoff_names import image_parameter_name, metrics_workspace_alias, parameter_name
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.storage import MOUNT_PATH


def write_hand_off(
    scope: Construct,
    foundation: Foundation,
    subnets: NodeSubnets,
    *,
    cluster_arn: str,
    namespaces: tuple[str, ...] = (),
    people: Mapping[Persona, iam.Role] | None = None,
) -> None:
    """Write the hand-off's document and the parameter that points to it.

    The roles of `people` may read the document, and launch the training jobs that it describes.

    The document is an asset of the CDK under the hash of its content, so that a failed deploy leaves the parameter with
    the document it had. The name of the parameter is an output of the stack.
    """
    platform = foundation.platform
    document = handoff.HandOff(
        platform=platform.name,
        orchestrator=platform.orchestrator.value,
        region=platform.region,
        bucket=foundation.storage.bucket.bucket_name,
        file_system=_file_system(foundation),
        checkpoints=handoff.Checkpoints(
            prefixes=checkpoint_layout(platform, foundation.catalogue).prefixes,
            part_bytes=PART_BYTES,
            gbps_each=GBPS_EACH,
        ),
        image_uri=foundation.registry.image_uri,
        image_parameter=image_parameter_name(platform.name),
        images=foundation.images,
        cluster=handoff.Cluster(
            name=platform.cluster_name,
            arn=cluster_arn,
            namespaces=namespaces,
            job_labels=queue_labels(platform),
            job_kinds=launch_kinds(platform),
            queue=queue_of(platform),
        ),
        node_groups=tuple(_nodes(foundation, group) for group in platform.node_groups),
        teams=tuple(team.name for team in platform.teams),
        team_shares=team_shares(platform),
        team_data={
            team: handoff.TeamData(own=prefixes.own, shared=prefixes.shared)
            for team, prefixes in team_prefixes(platform).items()
        },
        training_jobs=training_jobs(scope, foundation, subnets) if platform.iam.training_jobs else None,
        metrics_workspace=metrics_workspace_alias(platform.name, is_hyperpod=platform.orchestrator.is_hyperpod)
        if collector_of(platform) in (Collector.AWS_MANAGED, Collector.AGENT)
        else None,
    )
    # Most platforms have no training jobs, and mount the whole file system by its first claim: both are omitted.
    absent: dict[str, Any] = {} if document.training_jobs else {"training_jobs": True}
    absent |= {} if document.metrics_workspace else {"metrics_workspace": True}
    default = {"claim": CLAIM, "team_directories": False}
    absent |= {
        "file_system": {key for key, value in default.items() if getattr(document.file_system, key) == value}
        if document.file_system
        else True
    }
    # Most platforms have one image.
    absent |= {} if document.images else {"images": True, "node_groups": {"__all__": {"image"}}}
    if not document.team_data:
        absent |= {"team_data": True} | ({"training_jobs": {"team_role_arns"}} if document.training_jobs else {})
    asset, values = _publish(scope, document.model_dump_json(exclude={"trainway": True, **absent}))
    document_arn = f"arn:{cdk.Aws.PARTITION}:s3:::{asset.s3_bucket_name}/{asset.s3_object_key}"
    for persona, role in (people or {}).items():
        grant(role, Permission(("s3:GetObject",), (document_arn,)))
        if document.training_jobs:
            directory = _directory_of(persona, document)
            grant(role, *training_job_permissions(persona, platform.name, document.training_jobs, directory))
    pointer = handoff.Pointer(
        bucket=asset.s3_bucket_name,
        key=asset.s3_object_key,
        values=values,
        trainway=handoff.Deployer(
            version=__version__, extension=platform.extension.sha256 if platform.extension else None
        ),
    )
    name = parameter_name(platform.name)
    ssm.CfnParameter(
        scope,
        "HandOff",
        name=name,
        type="String",
        # A standard parameter holds 4 KB, and an advanced one 8 KB. The values take 25 bytes per node group, and 1 KB.
        # https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
        # (read 2026-11-22)
        tier="Intelligent-Tiering",
        description="Written by the deploy, read by `trainway launch`.",
        value=cdk.Stack.of(scope).to_json_string(pointer.model_dump(mode="json", exclude_none=True)),
    )
    if deployed := deployed_file.written(deployed_file.deployed_file(platform)):
        ssm.CfnParameter(
            scope,
            "PlatformFile",
            name=deployed_file.deployed_file_name(platform.name),
            type="String",
            tier="Intelligent-Tiering",
            description="Written by the deploy, read by `trainway diff`.",
            value=deployed,
        )
    if lock := recorded_lock.written(recorded_lock.recorded_lock(platform, foundation.catalogue)):
        ssm.CfnParameter(
            scope,
            "Lock",
            name=recorded_lock.recorded_lock_name(platform.name),
            type="String",
            tier="Intelligent-Tiering",
            description="Written by the deploy, read by `trainway lock --from-deployed`.",
            value=lock,
        )
    cdk.CfnOutput(scope, "HandOffParameter", value=name, description="The SSM parameter that launchers read")


def _publish(scope: Construct, document: str) -> tuple[assets.Asset, tuple[str, ...]]:
    """Return the document as an asset, and the values that only the deploy knows, in the order of its placeholders."""
    values: list[str] = []

    def placeholder(token: re.Match[str]) -> str:
        if token[0] not in values:
            values.append(token[0])
        return f"${{{values.index(token[0])}}}"

    text = TOKEN.sub(placeholder, document)
    directory = Path(scope.node.root.outdir) / "hand-off"  # type: ignore[attr-defined]
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{cdk.Stack.of(scope).stack_name}.json"
    file.write_text(json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return assets.Asset(scope, "HandOffDocument", path=str(file)), tuple(values)


def _file_system(foundation: Foundation) -> handoff.FileSystem | None:
    """Return the file system that jobs mount. None for a platform without one."""
    lustre, section = foundation.file_system.lustre, foundation.platform.storage.lustre
    if lustre is None or section is None:
        return None
    more = section.dynamic_volumes
    return handoff.FileSystem(
        file_system_id=lustre.file_system_id,
        dns_name=lustre.dns_name,
        mount_name=lustre.mount_name,
        mount_path=MOUNT_PATH,
        associations=tuple(lustre.associations),
        claim=claim_of(section.generation),
        team_directories=section.team_directories,
        subnet_id=foundation.network.storage_subnet_id if more else None,
        security_group_id=lustre.security_group_id if more else None,
    )


def _nodes(foundation: Foundation, group: NodeGroup) -> handoff.Nodes:
    platform, catalogue = foundation.platform, foundation.catalogue
    nodes = handoff.Nodes(
        name=group.name,
        instance_type=group.instance_type,
        or_types=group.or_types,
        **nodes_that_grow(platform, group, catalogue),
        ranks=ranks_of(group, catalogue[group.instance_type]),
        image=group.image,
    )
    if not platform.orchestrator.is_kubernetes:
        return nodes
    requested = {each.resource: each.count for each in devices_of(platform, group, catalogue) if not each.device_class}
    in_kubernetes = {
        "devices": requested,
        "claims": claims_of_a_node(platform, group, catalogue),
        "runtime": runtime_of(platform, group, catalogue),
    }
    return nodes.model_copy(update=in_kubernetes)


def _directory_of(persona: Persona, document: handoff.HandOff) -> str | None:
    """Return the DirectoryPath that training jobs of a team's member may mount, or None for any."""
    file_system = document.file_system
    if not (persona.team and file_system and file_system.team_directories):
        return None
    namespace = dict(zip(document.teams, document.cluster.namespaces, strict=True))[persona.team]
    return f"/{file_system.mount_name}/{team_directory(namespace)}"
