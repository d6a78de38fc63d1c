"""A value that a platform file accepts is one of its kind, whatever somebody typed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import TypeAdapter, ValidationError

from trainway.spec.partition import partition_of
from trainway.spec.sections.fields import Email, KmsKey, Principal, S3Uri, Secret
from trainway.spec.sections.iam import Iam
from trainway.spec.sections.observability import MessageUrl
from trainway.spec.sections.slurm_directory import Directory

# What people type, paste, or forget.
PIECES = (*"aZ09:/.-_*?@ %\\'\"", "..", "::", "//", "\u202e", "\u00e9", "\n", "99999", "65536", "65535", "0")


def changed(value: str, drawn: random.Random) -> str:
    """Return a value with some pieces removed, doubled, replaced, or added."""
    for _ in range(drawn.randint(1, 3)):
        begin = drawn.randrange(len(value) + 1)
        end = min(len(value), begin + drawn.choice((0, 0, 1, 1, 2, 5)))
        value = value[:begin] + drawn.choice((*PIECES, value[begin:end] * 2, "")) + value[end:]
    return value


def is_arn(service: str, resource: str) -> Callable[[str], bool]:
    """Return a check of an ARN, part by part. An ARN of IAM has no Region."""

    def check(text: str) -> bool:
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or parts[2] != service or not text.isascii():
            return False
        _, partition, _, region, account, rest = parts
        in_region = region == "" if service == "iam" else bool(re.fullmatch("[a-z0-9-]+", region))
        is_account = len(account) == 12 and account.isdecimal()
        return partition.startswith("aws") and in_region and is_account and rest.startswith(resource)

    return check


def is_principal(text: str) -> bool:
    # A path can contain colons.
    kind = text.split(":", 5)[-1].partition("/")[0]
    return is_arn("iam", kind)(text) and kind in ("role", "user") and not set(text) & set("*? \n")


def is_bucket(text: str) -> bool:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (read 2026-11-30)."""
    name = text.removeprefix("s3://").partition("/")[0]
    labels = name.split(".")
    is_address = len(labels) == 4 and all(each.isdecimal() for each in labels)
    return text.startswith("s3://") and 3 <= len(name) <= 63 and all(labels) and not is_address and name == name.lower()


def has_port(text: str) -> bool:
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        return False
    return bool(parts.hostname) and (port is None or port >= 1) and parts.username is None


def is_printed_as_it_is(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text and text.count("@") == 1


def adapter(kind: Any) -> Callable[[str], object]:
    return TypeAdapter(kind).validate_python


KINDS: dict[str, tuple[Callable[[str], object], str, Callable[[str], bool]]] = {
    "principal": (adapter(Principal), "arn:aws:iam::111122223333:role/teams/research", is_principal),
    "key": (
        adapter(KmsKey),
        "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        is_arn("kms", "key/"),
    ),
    "secret": (
        adapter(Secret),
        "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf",
        is_arn("secretsmanager", "secret:"),
    ),
    "bucket": (adapter(S3Uri), "s3://corpus.example-2/web/", is_bucket),
    "address of a person": (adapter(Email), "ml-oncall@example.com", is_printed_as_it_is),
    "address of a server": (adapter(MessageUrl), "https://events.example.com:8443/trainway", has_port),
    "directory": (lambda text: Directory(uri=text, base="dc=example,dc=com"), "ldaps://ldap.example.com:636", has_port),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_value_that_is_accepted_is_still_one_of_its_kind(kind: str) -> None:
    accept, good, is_right = KINDS[kind]
    accept(good)
    assert is_right(good)
    drawn, accepted, wrong = random.Random(kind), 0, set()
    for _ in range(1000):
        value = changed(good, drawn)
        try:
            accept(value)
        except ValidationError:
            continue
        accepted += 1
        if not is_right(value):
            wrong.add(value)
    assert wrong == set()
    assert 10 < accepted < 900, "most changes spoil a value, and not all do"


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("us-west-2", "aws"),
        ("cn-north-1", "aws-cn"),
        ("us-gov-east-1", "aws-us-gov"),
        ("eusc-de-east-1", "aws-eusc"),
        ("us-isob-east-1", "aws-iso-b"),
        ("ap-southeast-7", "aws"),
        ("nowhere", "aws"),
    ],
)
def test_a_region_is_of_one_partition(region: str, partition: str) -> None:
    assert partition_of(region) == partition


def test_a_boundary_is_the_arn_of_a_policy() -> None:
    assert Iam(permissions_boundary="arn:aws:iam::aws:policy/PowerUserAccess")
    with pytest.raises(ValidationError):
        Iam(permissions_boundary="arn:aws:iam::111122223333:role/boundary")
