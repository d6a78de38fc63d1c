"""The delivery stage that puts lifecycle scripts where HyperPod nodes read them."""

from __future__ import annotations

import json

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.build_stage import BuildStage
from stacks.constructs.file_system_identity import file_system_identity
from stacks.constructs.hyperpod import LifeCycleScripts
from stacks.constructs.permissions import Permission
from stacks.foundation import Foundation
from trainway.spec.lustre_clients import efa_interfaces
from trainway.spec.node_packages import node_containers
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.sections.slurm import CONTROLLER_GROUP, LOGIN_GROUP
from trainway.spec.sections.storage import HOME_PATH, MOUNT_PATH
from trainway.spec.slurm_nodes import slurm_nodes
from trainway.spec.slurm_users import slurm_directory

SCRIPTS_PREFIX = "lifecycle_scripts"
SLURM_ACCOUNTS = f"{SCRIPTS_PREFIX}/slurm-accounts.json"
SLURM_USERS = f"{SCRIPTS_PREFIX}/slurm-users.json"


def life_cycle_scripts(foundation: Foundation) -> LifeCycleScripts:
    """Where one version of the scripts lies: a node replaced a month later runs what its cluster was made with."""
    bucket, content = foundation.storage.bucket.bucket_name, foundation.bundles.scripts_content
    return LifeCycleScripts(f"s3://{bucket}/{SCRIPTS_PREFIX}/{content}")


def scripts_stage(scope: Construct, foundation: Foundation, scripts: LifeCycleScripts) -> BuildStage:
    """A stage that may write below the scripts' prefix and nowhere else."""
    platform, storage = foundation.platform, foundation.storage
    slurm = platform.orchestrator is Orchestrator.HYPERPOD_SLURM
    directory = platform.slurm_or_default.directory
    lustre, home = foundation.file_system.lustre, foundation.file_system.home
    environment = {
        "LIFECYCLE_S3_URI": scripts.source_s3_uri,
        "ORCHESTRATOR": platform.orchestrator.value,
        "LUSTRE_EFA_INTERFACES": json.dumps(efa_interfaces(platform, foundation.catalogue), sort_keys=True),
        # Under Slurm the service mounts the file system itself; under Kubernetes the CSI driver does, in each pod.
        **(
            {
                "FSX_DNS_NAME": lustre.dns_name,
                "FSX_MOUNT_NAME": lustre.mount_name,
                "FSX_MOUNT_PATH": MOUNT_PATH,
                "FSX_MOUNTED_BY": "service",
                **(
                    {"HOMES_DNS_NAME": home.dns_name, "HOMES_MOUNT_PATH": HOME_PATH, "HOMES_MOUNTED_BY": "service"}
                    if home
                    else {}
                ),
                "CONTAINERS": node_containers(platform),
                "NETWORK_ACCESS": platform.network.access,
                "EXPORTERS": json.dumps(platform.slurm_or_default.exporters),
                "SLURM_NODES": json.dumps(slurm_nodes(platform, foundation.catalogue), sort_keys=True),
                "SLURM_ACCOUNTS_S3_URI": f"s3://{storage.bucket.bucket_name}/{SLURM_ACCOUNTS}",
                "SLURM_ACCOUNTS_REGION": platform.region,
                "SLURM_USERS_S3_URI": f"s3://{storage.bucket.bucket_name}/{SLURM_USERS}",
                "SLURM_USERS_REGION": platform.region,
                **({"SLURM_DIRECTORY": json.dumps(slurm_directory(platform), sort_keys=True)} if directory else {}),
                "CONTROLLER_GROUP": CONTROLLER_GROUP,
                **({"LOGIN_GROUP": LOGIN_GROUP} if platform.slurm_or_default.login else {}),
            }
            if slurm
            else {}
        ),
    }
    return BuildStage(
        scope,
        "ScriptsStage",
        platform=platform.name,
        name="scripts",
        environment=environment,
        permissions=[
            Permission(("s3:ListBucket",), (storage.bucket.bucket_arn,)),
            Permission(
                ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
                (storage.bucket.arn_for_objects(f"{SCRIPTS_PREFIX}/*"),),
                because="Scripts lie below a prefix of their own, each version below its hash.",
            ),
        ],
        timeout=cdk.Duration.minutes(15),
        network=foundation.network.build_network(),
        stands_for=file_system_identity(platform) if slurm else None,
    )
