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
from trainway.manifests.hand_off import DeployedFileSystem, DeployedValues, hand_off_document
from trainway.manifests.lustre_volume import CLAIM
from trainway.spec import deployed_file, handoff, recorded_lock
from trainway.spec.handoff_names import parameter_name
from trainway.spec.teams.personas import Persona
from trainway.spec.teams.team_directories import team_directory


def write_hand_off(
    scope: Construct,
    foundation: Foundation,
    subnets: NodeSubnets,
    *,
    cluster_arn: str,
    people: Mapping[Persona, iam.Role] | None = None,
) -> None:
    """Write the hand-off's document and the parameter that points to it.

    The roles of `people` may read the document, and launch the training jobs that it describes.

    The document is an asset of the CDK under the hash of its content, so that a failed deploy leaves the parameter with
    the document it had. The name of the parameter is an output of the stack.
    """
    platform = foundation.platform
    document = hand_off_document(
        platform,
        foundation.catalogue,
        DeployedValues(
            bucket=foundation.storage.bucket.bucket_name,
            file_system=_file_system(foundation),
            image_uri=foundation.registry.image_uri,
            images=foundation.images,
            cluster_arn=cluster_arn,
            training_jobs=training_jobs(scope, foundation, subnets) if platform.iam.training_jobs else None,
        ),
    )
    asset, values = _publish(scope, document.model_dump_json(exclude={"trainway": True, **_absent(document)}))
    _let_people_launch(people or {}, asset, platform.name, document)
    pointer = handoff.Pointer(
        bucket=asset.s3_bucket_name,
        key=asset.s3_object_key,
        values=values,
        trainway=handoff.Deployer(
            version=__version__, extension=platform.extension.sha256 if platform.extension else None
        ),
    )
    name = parameter_name(platform.name)
    # The values take 25 bytes per node group, and 1 KB.
    value = cdk.Stack.of(scope).to_json_string(pointer.model_dump(mode="json", exclude_none=True))
    _parameter(scope, "HandOff", name, value, reader="trainway launch")
    if deployed := deployed_file.written(deployed_file.deployed_file(platform)):
        file_name = deployed_file.deployed_file_name(platform.name)
        _parameter(scope, "PlatformFile", file_name, deployed, reader="trainway diff")
    if lock := recorded_lock.written(recorded_lock.recorded_lock(platform, foundation.catalogue)):
        lock_name = recorded_lock.recorded_lock_name(platform.name)
        _parameter(scope, "Lock", lock_name, lock, reader="trainway lock --from-deployed")
    cdk.CfnOutput(scope, "HandOffParameter", value=name, description="The SSM parameter that launchers read")


def _absent(document: handoff.HandOff) -> dict[str, Any]:
    """Return the keys to exclude from the document: sections that the platform lacks, and default values."""
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
    return absent


def _let_people_launch(
    people: Mapping[Persona, iam.Role], asset: assets.Asset, platform_name: str, document: handoff.HandOff
) -> None:
    """Let people's roles read the document, and launch the training jobs that it describes."""
    document_arn = f"arn:{cdk.Aws.PARTITION}:s3:::{asset.s3_bucket_name}/{asset.s3_object_key}"
    for persona, role in people.items():
        grant(role, Permission(("s3:GetObject",), (document_arn,)))
        if document.training_jobs:
            directory = _directory_of(persona, document)
            grant(role, *training_job_permissions(persona, platform_name, document.training_jobs, directory))


def _parameter(scope: Construct, id: str, name: str, value: str, *, reader: str) -> None:
    """Create the parameter that the command `reader` reads."""
    ssm.CfnParameter(
        scope,
        id,
        name=name,
        type="String",
        # A standard parameter holds 4 KB, and an advanced one 8 KB.
        # https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
        # (read 2026-11-22)
        tier="Intelligent-Tiering",
        description=f"Written by the deploy, read by `{reader}`.",
        value=value,
    )


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


def _file_system(foundation: Foundation) -> DeployedFileSystem | None:
    """Return what the deploy knows of the file system that jobs mount. None for a platform without one."""
    lustre = foundation.file_system.lustre
    if lustre is None:
        return None
    return DeployedFileSystem(
        file_system_id=lustre.file_system_id,
        dns_name=lustre.dns_name,
        mount_name=lustre.mount_name,
        subnet_id=foundation.network.storage_subnet_id,
        security_group_id=lustre.security_group_id,
    )


def _directory_of(persona: Persona, document: handoff.HandOff) -> str | None:
    """Return the DirectoryPath that training jobs of a team's member may mount, or None for any."""
    file_system = document.file_system
    if not (persona.team and file_system and file_system.team_directories):
        return None
    namespace = dict(zip(document.teams, document.cluster.namespaces, strict=True))[persona.team]
    return f"/{file_system.mount_name}/{team_directory(namespace)}"
