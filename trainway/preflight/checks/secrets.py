"""Secrets of Secrets Manager that jobs, builds, and nodes read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.problems import KeyPath


@check("secretsmanager:DescribeSecret")
def secrets(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each secret that the file names exists, and is not about to be deleted."""
    for key, arn in _secrets_in((), inquiry.platform.model_dump(mode="json", by_alias=True)):
        region, name = arn.split(":")[3], arn.rpartition(":")[2]
        found = inquiry.aws.ask(
            "secretsmanager", "describe_secret", SecretId=arn, region=region, absent=["ResourceNotFoundException"]
        )
        if found is None:
            yield error(
                f"there is no secret {name}",
                why=f"Secrets Manager lists none with this name for account {inquiry.aws.number} in {region}",
                fix="`aws secretsmanager list-secrets` lists those that the account has",
                key=key,
            )
        elif found.get("DeletedDate"):
            yield error(
                f"the secret {name} is about to be deleted",
                why="nobody can read it",
                fix=f"aws secretsmanager restore-secret --region {region} --secret-id {arn}",
                key=key,
            )


def _secrets_in(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _secrets_in((*path, name), each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _secrets_in((*path, index), each)
    elif isinstance(value, str) and ":secretsmanager:" in value:
        yield path, value
