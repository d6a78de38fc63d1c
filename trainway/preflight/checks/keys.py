"""KMS keys of yours that encrypt what the platform creates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error, warning
from trainway.spec.problems import KeyPath

# The role of FSx for the bucket that a file system is linked to, before the id of the file system.
ROLE_OF_FSX = "AWSServiceRoleForFSxS3Access"


@check("kms:DescribeKey", "kms:GetKeyPolicy")
def keys(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each KMS key is enabled, encrypts, and has a key policy that leaves it to IAM and lets FSx read the bucket."""
    for key, arn in keys_of(inquiry):
        absent = ["NotFoundException", "InvalidArnException"]
        described = inquiry.aws.ask("kms", "describe_key", KeyId=arn, absent=absent)
        if described is None:
            yield error(
                f"there is no KMS key {arn.rpartition('/')[2]}",
                why=f"KMS shows none in {inquiry.aws.region}",
                fix="`aws kms list-keys` lists the keys of the account",
                key=key,
            )
            continue
        found = described["KeyMetadata"]
        if found["KeyState"] != "Enabled":
            cancel = "cancel-key-deletion" if found["KeyState"] == "PendingDeletion" else "enable-key"
            yield error(
                f"the KMS key {found['KeyId']} is {found['KeyState']}",
                why="nothing can be encrypted with it",
                fix=f"aws kms {cancel} --region {inquiry.aws.region} --key-id {found['KeyId']}",
                key=key,
            )
        elif (found.get("KeyUsage"), found.get("KeySpec")) != ("ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT"):
            yield error(
                f"the KMS key {found['KeyId']} is {found.get('KeySpec')} for {found.get('KeyUsage')}",
                why="AWS's services encrypt with symmetric keys only",
                fix="create a key of the kind SYMMETRIC_DEFAULT",
                key=key,
            )
        if found["KeyManager"] == "CUSTOMER" and found.get("AWSAccountId") == inquiry.aws.number:
            yield from _policy(inquiry, found["KeyId"], key)


def keys_of(inquiry: Inquiry) -> Iterator[tuple[KeyPath, str]]:
    """Yield every KMS key that the file names, with the path of its key."""

    def found(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, str]]:
        if isinstance(value, dict):
            for name, each in value.items():
                yield from found((*path, name), each)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                yield from found((*path, index), each)
        elif isinstance(value, str) and ":kms:" in value and ":key/" in value:
            yield path, value

    yield from found((), inquiry.platform.model_dump(mode="json", by_alias=True))


def _policy(inquiry: Inquiry, identifier: str, key: KeyPath) -> Iterator[AccountFinding]:
    answer = inquiry.aws.ask("kms", "get_key_policy", KeyId=identifier, PolicyName="default") or {}
    statements = json.loads(answer["Policy"])["Statement"]
    allowing = [each for each in statements if each["Effect"] == "Allow"]
    root = f"arn:{inquiry.aws.partition}:iam::{inquiry.aws.number}:root"
    if not any({root, inquiry.aws.number} & set(_principals(each)) for each in allowing):
        yield error(
            f"the key policy of {identifier} does not leave the key to IAM",
            why=f"the roles of the platform may use the key by IAM, and no statement allows {root}",
            fix=f"add a statement that allows {root} the action kms:*",
            key=key,
        )
    lustre = inquiry.platform.storage.lustre
    is_bucket = key == ("storage", "bucket", "key")
    if is_bucket and lustre and (lustre.mirrored or lustre.import_from) and not any(map(_lets_fsx, allowing)):
        yield warning(
            f"no statement of the key policy of {identifier} lets FSx use the key",
            why="the file system mirrors prefixes of the bucket in a role of FSx's own, which has no policy of yours",
            fix="add the statement of https://docs.aws.amazon.com/fsx/latest/LustreGuide/"
            "s3-server-side-encryption-support.html",
            key=key,
        )


def _principals(statement: Mapping[str, Any]) -> list[str]:
    principal = statement.get("Principal", {})
    named = principal if isinstance(principal, str) else principal.get("AWS", [])
    return [named] if isinstance(named, str) else list(named)


def _lets_fsx(statement: Mapping[str, Any]) -> bool:
    """Return whether a statement is for anybody, which its conditions narrow, or names the role of FSx."""
    return "*" in _principals(statement) or ROLE_OF_FSX in json.dumps(statement)
