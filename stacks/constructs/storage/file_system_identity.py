"""What makes a platform's file systems other file systems, for stages that are told their ids and names."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform


def file_system_identity(platform: Platform) -> dict[str, Any]:
    """Return the settings whose change makes CloudFormation replace a file system, or may do so.

    A stage that is told the id of a file system runs again for another one. Only the deploy knows the id; these
    settings are known before it.

    Which properties those are, a test reads in CloudFormation's registry schema, as cfn-lint carries it, and in the
    AWS CDK's database, by which `cdk diff` warns of a replacement. The schema lists none below LustreConfiguration and
    OpenZFSConfiguration, the database does. `storage_class` and `efa` are in neither: FSx cannot change them in a file
    system (UpdateFileSystem in botocore's model), so whether CloudFormation replaces it then is not known.
    """
    lustre, home = platform.storage.lustre, platform.storage.home
    former = platform.storage.former_lustre
    # Absent for a platform that never had another file system, so that its stages do not run again for nothing.
    moved = {"generation": lustre.generation} if lustre.generation > 1 else {}
    moved |= {"former": former.generation} if former else {}
    return moved | {
        "zone": platform.zones[0],
        "network": platform.network.model_dump(mode="json"),
        "lustre": lustre.model_dump(
            mode="json", include={"storage_class", "throughput_mbps_per_tib", "efa", "key", "existing"}
        )
        # Tags are copied to backups where there are any.
        | {"backups": lustre.backups is not None},
        "home": home.model_dump(mode="json", include={"highly_available", "key"}) if home else None,
    }
