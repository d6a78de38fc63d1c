"""What makes a platform's file systems other file systems, for stages that are told their ids and names."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform


def file_system_identity(platform: Platform) -> dict[str, Any]:
    """Return the settings with which CloudFormation replaces a file system when one of them changes.

    A stage that is told the id of a file system runs again for another one. Only the deploy knows the id; these
    settings are known before it.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-filesystem.html
    (properties whose update requires replacement; read 2026-11-22)
    """
    lustre, home = platform.storage.lustre, platform.storage.home
    return {
        "zone": platform.zones[0],
        "network": platform.network.model_dump(mode="json"),
        "lustre": lustre.model_dump(mode="json", include={"storage_class", "efa", "key", "existing"}),
        "home": home.model_dump(mode="json", include={"highly_available", "key"}) if home else None,
    }
