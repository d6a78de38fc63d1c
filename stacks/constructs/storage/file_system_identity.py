"""Identify the platform's file systems, for stages that receive their IDs and names."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.storage import Lustre


def file_system_identity(platform: Platform) -> dict[str, Any]:
    """Return the settings whose change makes CloudFormation replace a file system, or may do so.

    A stage with the ID of a file system runs again for another file system. Only the deploy knows the ID. These
    settings are known before it.

    A test reads these properties from CloudFormation's registry schema, as cfn-lint carries it, and from the AWS CDK's
    database, by which `cdk diff` warns of a replacement. The schema lists none below LustreConfiguration and
    OpenZFSConfiguration, the database does. `storage_class` and `efa` are in neither: FSx cannot change them in a file
    system (UpdateFileSystem in botocore's model), so it is unknown whether CloudFormation then replaces it.
    """
    lustre, home = platform.storage.lustre, platform.storage.home
    former = platform.storage.former_lustre
    # Absent for a platform that never had another file system, so that its stages do not run again without need.
    moved = {"generation": lustre.generation} if lustre and lustre.generation > 1 else {}
    moved |= {"former": former.generation} if former else {}
    return moved | {
        "zone": platform.zones[0],
        "network": platform.network.model_dump(mode="json"),
        "lustre": lustre and _identity(lustre),
        "home": home.model_dump(mode="json", include={"highly_available", "key"}) if home else None,
    }


def _identity(lustre: Lustre) -> dict[str, Any]:
    identity = lustre.model_dump(
        mode="json", include={"storage_class", "throughput_mbps_per_tib", "efa", "key", "existing"}
    )
    # Tags are copied to backups if there are any.
    return identity | {"backups": lustre.backups is not None}
