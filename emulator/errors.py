"""What can go wrong, in CloudFormation's own terms: each error knows the code that AWS's API answers with."""

from __future__ import annotations


class CloudFormationError(Exception):
    """An error that the CloudFormation API answers with `code` and HTTP status `status`."""

    code = "ValidationError"
    status = 400


class UnrecognizedType(CloudFormationError):
    """Resource types that the region's registry does not have; the whole change set is refused."""

    def __init__(self, types: list[str]) -> None:
        super().__init__(f"Template format error: Unrecognized resource types: [{', '.join(types)}]")
        self.types = types


class ChangeSetNotFound(CloudFormationError):
    """No change set of that name or id."""

    code = "ChangeSetNotFound"
    status = 404


class InvalidChangeSetStatus(CloudFormationError):
    """The change set failed, or was executed already."""

    code = "InvalidChangeSetStatus"


class AlreadyExists(CloudFormationError):
    """A stack of that name exists."""

    code = "AlreadyExistsException"


class InsufficientCapabilities(CloudFormationError):
    """The template makes IAM resources and the request does not acknowledge it."""

    code = "InsufficientCapabilitiesException"


class NotEmulated(CloudFormationError):
    """Something that AWS can do and this emulator does not: refused, never ignored."""

    code = "NotEmulated"


class ResourceError(Exception):
    """A resource could not be created, updated or deleted; the stack rolls back with this as the reason."""
