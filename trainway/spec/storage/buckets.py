"""Names of the platform's buckets. They are the same in every deploy, so a deploy finds buckets that a destroy kept."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform

DATA, ACCESS_LOGS = "data", "logs"


@dataclass(frozen=True)
class BucketIdentity:
    """A bucket's name, and whether it is in the namespace in which only its account can create buckets."""

    name: str
    in_account_namespace: bool


def bucket_identity(platform: Platform, role: str, account: str) -> BucketIdentity:
    """Return the bucket of a role, DATA or ACCESS_LOGS. `account` is the account's number, or a placeholder for it.

    Anybody could have taken a global name, so it does not show whose data is behind it. In the account's own namespace
    nobody else can take the name, not even after the bucket is deleted.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/gpbucketnamespaces.html (read 2026-11-21)
    """
    facts, chosen = service_facts().s3, platform.storage.bucket.name
    if role == DATA and chosen:
        return BucketIdentity(chosen, bool(re.search(rf"-\d{{12}}-.+-{facts.account_namespace_suffix}$", chosen)))
    name = f"{platform.name}-{role}-{account}-{platform.region}"
    if platform.region in facts.no_account_namespace:
        return BucketIdentity(name, in_account_namespace=False)
    return BucketIdentity(f"{name}-{facts.account_namespace_suffix}", in_account_namespace=True)
