"""Faults of AWS that end an attempt of a delivery stage before its script, or a pipeline before its first stage.

The forms of the messages are those of botocore's models of CodeBuild and CodePipeline. The words are made up here.
"""

from __future__ import annotations

from typing import Any

PROVISIONING = {"phase": "PROVISIONING", "code": "CLIENT_ERROR", "message": "Unable to pull the build image"}
# The outcome of an attempt, as the emulator takes it, and what the deploy says of it.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "quota": (
        {"error": {"code": "AccountLimitExceededException", "message": "no more than 0 builds in queue"}},
        "no more than 0 builds in queue",
    ),
    "role": (
        {"phase": "SUBMITTED", "code": "ACCESS_DENIED", "message": "Not authorized to assume the role"},
        "SUBMITTED: ACCESS_DENIED Not authorized to assume the role",
    ),
    "subnet": (
        {"phase": "PROVISIONING", "code": "VPC_CLIENT_ERROR", "message": "The subnet subnet-1 does not exist"},
        "PROVISIONING: VPC_CLIENT_ERROR The subnet subnet-1 does not exist",
    ),
    "queue": (
        {"phase": "QUEUED", "code": "BUILD_TIMED_OUT", "message": "Build has timed out"},
        "QUEUED: BUILD_TIMED_OUT Build has timed out",
    ),
    "image pull": (PROVISIONING, "PROVISIONING: CLIENT_ERROR Unable to pull the build image"),
    "download": (
        {"phase": "DOWNLOAD_SOURCE", "code": "CLIENT_ERROR", "message": "NoSuchKey"},
        "DOWNLOAD_SOURCE: CLIENT_ERROR NoSuchKey",
    ),
}
SOURCE_FAULT: tuple[dict[str, Any], str] = (
    {"error": {"code": "ConfigurationError", "message": "The object with key x.zip does not exist"}},
    "The object with key x.zip does not exist",
)
