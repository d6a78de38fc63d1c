"""Errors in CloudFormation's terms. Each has the code that AWS's API returns."""

from __future__ import annotations


class CloudFormationError(Exception):
    """An error that the CloudFormation API returns with `code` and HTTP status `status`."""

    code = "ValidationError"
    status = 400


class UnrecognizedType(CloudFormationError):
    """Resource types that the region's registry does not have. The whole change set is refused."""

    def __init__(self, types: list[str]) -> None:
        super().__init__(f"Template format error: Unrecognized resource types: [{', '.join(types)}]")
        self.types = types


class ChangeSetNotFound(CloudFormationError):
    """The change set of that name or ID does not exist."""

    code = "ChangeSetNotFound"
    status = 404


class InvalidChangeSetStatus(CloudFormationError):
    """The change set failed, or was executed already."""

    code = "InvalidChangeSetStatus"


class AlreadyExists(CloudFormationError):
    """A stack of that name exists."""

    code = "AlreadyExistsException"


class InsufficientCapabilities(CloudFormationError):
    """The template creates IAM resources and the request does not acknowledge it."""

    code = "InsufficientCapabilitiesException"


class NotEmulated(CloudFormationError):
    """A feature of AWS that this emulator lacks. It is refused, never ignored."""

    code = "NotEmulated"


class ResourceError(Exception):
    """A resource could not be created, updated, or deleted. The stack rolls back with this as the reason."""


class RefusedCall(Exception):
    """An error that a service's API returns, with its code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
