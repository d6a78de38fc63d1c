"""The delivery stage that uploads the lifecycle scripts for HyperPod nodes."""

from __future__ import annotations

from collections.abc import Mapping

from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildMachine, BuildStage, StageInputs
from stacks.constructs.hyperpod.instance_groups import LifeCycleScripts
from stacks.constructs.iam.permissions import Permission
from stacks.constructs.storage.file_system_identity import file_system_identity
from stacks.foundation import Foundation
from trainway.spec.deployment.creation import SCRIPTS
from trainway.spec.deployment.stage_times import stage_times
from trainway.spec.sections.orchestrator import Orchestrator

SCRIPTS_PREFIX = "lifecycle_scripts"


def life_cycle_scripts(foundation: Foundation) -> LifeCycleScripts:
    """Return the location of one version of the scripts. A node replaced a month later runs its cluster's version."""
    bucket, content = foundation.storage.bucket.bucket_name, foundation.bundles.scripts_content
    return LifeCycleScripts(f"s3://{bucket}/{SCRIPTS_PREFIX}/{content}")


def scripts_stage(
    scope: Construct,
    foundation: Foundation,
    scripts: LifeCycleScripts,
    more: Mapping[str, str] | None = None,
) -> BuildStage:
    """Return a stage that may write only below the scripts' prefix. `more` are variables of the documents."""
    platform, storage = foundation.platform, foundation.storage
    slurm = platform.orchestrator is Orchestrator.HYPERPOD_SLURM
    home = foundation.file_system.home
    environment = {"LIFECYCLE_S3_URI": scripts.source_s3_uri}
    if slurm:
        lustre = foundation.file_system.of_jobs
        # The placeholders of trainway/spec/slurm/node_parameters.py. Under Kubernetes the nodes mount no file system.
        environment |= {
            "NETWORK_ACCESS": platform.network.access,
            "TRAINWAY_DOCUMENTS_S3_URI": f"s3://{storage.bucket.bucket_name}/{SCRIPTS_PREFIX}",
            "TRAINWAY_FSX_DNS_NAME": lustre.dns_name,
            "TRAINWAY_FSX_MOUNT_NAME": lustre.mount_name,
            **({"TRAINWAY_HOME_DNS_NAME": home.dns_name} if home else {}),
            **(more or {}),
        }
    return BuildStage(
        scope,
        "ScriptsStage",
        platform=platform.name,
        name="scripts",
        inputs=StageInputs(environment, stands_for=file_system_identity(platform) if slurm else {}),
        permissions=[
            Permission(("s3:ListBucket",), (storage.bucket.bucket_arn,)),
            Permission(
                ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
                (storage.bucket.arn_for_objects(f"{SCRIPTS_PREFIX}/*"),),
                because="Scripts lie below a prefix of their own, each version below its hash.",
            ),
        ],
        times=stage_times(SCRIPTS),
        machine=BuildMachine(network=foundation.network.build_network()),
    )
