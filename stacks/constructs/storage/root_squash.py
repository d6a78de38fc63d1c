"""The delivery stage that sets root squash, which CloudFormation does not support."""

from __future__ import annotations

from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildMachine, BuildNetwork, BuildStage, StageInputs
from stacks.constructs.iam.permissions import Permission, regional_arn
from stacks.constructs.storage.file_system_identity import file_system_identity
from trainway.spec.deployment.creation import ROOT_SQUASH
from trainway.spec.deployment.stage_times import stage_times
from trainway.spec.platform import Platform
from trainway.spec.sections.storage import RootSquash


def root_squash_stage(
    scope: Construct, *, platform: Platform, squash: RootSquash, file_system_id: str, network: BuildNetwork | None
) -> BuildStage:
    """Return a stage that may change only this file system."""
    listing = "fsx:DescribeFileSystems lists, and a list has no resource type."
    return BuildStage(
        scope,
        "SquashStage",
        platform=platform.name,
        name="squash",
        inputs=StageInputs(
            {
                "FSX_ID": file_system_id,
                "ROOT_SQUASH": f"{squash.uid}:{squash.gid}",
                "NO_SQUASH_NIDS": " ".join(f"{client}@tcp" for client in squash.but_not),
            },
            stands_for=file_system_identity(platform),
        ),
        permissions=[
            Permission(("fsx:DescribeFileSystems",), ("*",), because=listing),
            Permission(("fsx:UpdateFileSystem",), (regional_arn("fsx", f"file-system/{file_system_id}"),)),
        ],
        times=stage_times(ROOT_SQUASH),
        machine=BuildMachine(network=network),
    )
