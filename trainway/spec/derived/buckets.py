"""What the platform's buckets are called: the same in every deploy, so that what a destroy kept is found again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform

DATA, ACCESS_LOGS = "data", "logs"


@dataclass(frozen=True)
class BucketIdentity:
    """A bucket's name, and whether it is in the namespace that only its account can make buckets in."""

    name: str
    in_account_namespace: bool


def bucket_identity(platform: Platform, role: str, account: str) -> BucketIdentity:
    """The bucket of a role, DATA or ACCESS_LOGS; `account` is the account's number, or what will stand for it.

    A name that anybody could have taken says nothing about whose data is behind it; in the account's own namespace
    nobody else can take it, not even after the bucket is deleted.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/gpbucketnamespaces.html (read 2026-11-21)
    """
    facts, chosen = service_facts().s3, platform.storage.bucket.name
    if role == DATA and chosen:
        return BucketIdentity(chosen, bool(re.search(rf"-\d{{12}}-.+-{facts.account_namespace_suffix}$", chosen)))
    name = f"{platform.name}-{role}-{account}-{platform.region}"
    if platform.region in facts.no_account_namespace:
        return BucketIdentity(name, in_account_namespace=False)
    return BucketIdentity(f"{name}-{facts.account_namespace_suffix}", in_account_namespace=True)
