"""Names of buckets: those that the deploy creates, and those that it reads."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.aws import NotAnswered
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error, not_checked
from trainway.spec.problems import KeyPath
from trainway.spec.storage.buckets import ACCESS_LOGS, DATA, BucketIdentity, bucket_identity


@check("s3:ListBucket", "s3:ListAllMyBuckets")
def buckets(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """No other account has the names of the platform's buckets, and the buckets that are imported exist."""
    platform, aws = inquiry.platform, inquiry.aws
    for role in (DATA, ACCESS_LOGS):
        own = bucket_identity(platform, role, aws.number)
        key: KeyPath | None = ("storage", "bucket", "name") if role == DATA and platform.storage.bucket.name else None
        try:
            found = aws.ask("s3", "head_bucket", Bucket=own.name, absent=["404", "NoSuchBucket"])
        except NotAnswered as missing:
            yield from _refused(inquiry, own, key, missing)
            continue
        region = (found or {}).get("BucketRegion", platform.region)
        if found is not None and region != platform.region:
            yield error(
                f"the bucket {own.name} is in {region}",
                why=f"the platform is in {platform.region}, and would use the existing bucket as its own",
                fix="write another name as storage.bucket.name",
                key=key,
            )
    lustre = platform.storage.lustre
    for number, uri in enumerate(lustre.import_from if lustre else ()):
        name, where = uri.removeprefix("s3://").partition("/")[0], ("storage", "lustre", "import_from", number)
        try:
            found = aws.ask("s3", "head_bucket", Bucket=name, absent=["404", "NoSuchBucket"])
        except NotAnswered as missing:
            fix = f"{missing.fix}; FSx reads the bucket in the name of whoever deploys"
            yield not_checked(f"whether the bucket {name} exists", why=missing.why, fix=fix, key=where)
            continue
        if found is None:
            yield error(
                f"there is no bucket {name}",
                why="the file system is linked to it",
                fix="write a bucket that exists",
                key=where,
            )


def _refused(
    inquiry: Inquiry, bucket: BucketIdentity, key: KeyPath | None, missing: NotAnswered
) -> Iterator[AccountFinding]:
    """Yield what a refusal means: S3 refuses as well to speak of a bucket that another account has."""
    if not bucket.in_account_namespace and missing.is_refusal:
        listed = inquiry.aws.pages("s3", "list_buckets")
        if bucket.name not in {each["Name"] for page in listed for each in page.get("Buckets", [])}:
            yield error(
                f"the bucket {bucket.name} is not yours",
                why="another account has a bucket of this name",
                fix="write another name as storage.bucket.name",
                key=key,
            )
            return
    yield not_checked(f"whether the bucket {bucket.name} exists", why=missing.why, fix=missing.fix, key=key)
