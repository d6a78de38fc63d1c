"""The platform file of the last deploy, as an SSM parameter keeps it.

`trainway diff` compares it with the file of today to name the key that a replacement follows from.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from trainway.spec.platform import Platform

# An advanced parameter holds 8 KB (read 2026-11-22):
# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
MOST_BYTES: Final = 8 * 1024


class DeployedFile(BaseModel):
    """What a deploy read: the keys that stand in the platform file, with their values."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    platform: dict[str, Any]


def deployed_file_name(platform: str) -> str:
    """Return the name of the SSM parameter that holds the platform file of the last deploy."""
    return f"/trainway/{platform}/platform-file"


def deployed_file(platform: Platform) -> DeployedFile:
    """Return what is kept of a platform."""
    return DeployedFile(platform=platform.model_dump(mode="json", exclude_unset=True, by_alias=True))


def written(file: DeployedFile) -> str | None:
    """Return the text of the parameter, or None if a parameter cannot hold it."""
    text = json.dumps(file.model_dump(), separators=(",", ":"))
    return text if len(text.encode()) <= MOST_BYTES else None


def read(text: str) -> DeployedFile | None:
    """Return what a parameter's text holds, or None if another version of Trainway wrote it."""
    try:
        return DeployedFile.model_validate_json(text)
    except ValidationError:
        return None
