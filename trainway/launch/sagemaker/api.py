"""AWS's answers, and what a refusal means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainway.spec.errors import usage_error

# What SageMaker says of a job that it does not know, under more than one error code.
_UNKNOWN = re.compile("not found|could not find", re.IGNORECASE)
# The first that an error says. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
# (Errors), https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html (Passing roles; both read 2026-11-21)
_REMEDIES = (
    ("ResourceLimitExceeded", "ask for more of {quota} in Service Quotas, or name another --group"),
    ("ResourceInUse", "launch it again: a job of that name was made at the same time"),
    ("iam:PassRole", "you need iam:PassRole on that role, for sagemaker.amazonaws.com"),
    ("AccessDenied", "you need that action; docs/launch-sagemaker.md lists what a launch does"),
    ("UnrecognizedClient", "`aws sts get-caller-identity` shows whether this shell has credentials"),
    ("ExpiredToken", "log in again: this shell's credentials have ended"),
    ("Unable to locate credentials", "`aws sts get-caller-identity` shows whether this shell has credentials"),
)


def client(service: str, region: str) -> Any:
    """Return a client of a service, for code inside `explained`."""
    import boto3

    make: Any = boto3.client
    return make(service, region_name=region)


@contextmanager
def explained(what: str, *, quota: str = "the quota that it names") -> Iterator[None]:
    """Raise UsageError, which begins with `what`, for an error of AWS in the block.

    `quota` is what the nodes count against.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        said = str(error)
        fixes = (fix.replace("{quota}", quota) for words, fix in _REMEDIES if words in said)
        raise usage_error(what, why=said, fix=next(fixes, "fix what AWS reports")) from None


def described(sagemaker: Any, name: str) -> dict[str, Any] | None:
    """Return the DescribeTrainingJob response, or None if the job does not exist."""
    from botocore.exceptions import ClientError

    try:
        found: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
    except ClientError as error:
        if _UNKNOWN.search(error.response["Error"].get("Message", "")):
            return None
        raise
    return found
