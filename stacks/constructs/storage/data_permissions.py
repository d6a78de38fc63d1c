"""Permissions of jobs and people for the data bucket."""

from __future__ import annotations

from aws_cdk import aws_s3 as s3

from stacks.constructs.iam.permissions import Permission
from trainway.spec.sections.storage import MIRRORED_PREFIXES
from trainway.spec.teams.team_data import RECORDS, TeamPrefixes

_OF_JOBS = "A job names its own corpora and checkpoints, below these prefixes only."


def data_permissions(bucket: s3.IBucket, team: TeamPrefixes | None = None) -> list[Permission]:
    """Return the permissions for the data bucket: everything below the prefixes it shares with the file system.

    With `team`, everything below the prefixes of that team, and to read what all teams share. The names of other
    teams' objects cannot be listed either. A missing object below the team's prefixes is therefore a forbidden one.
    """
    own = MIRRORED_PREFIXES if team is None else team.own
    change = Permission(
        ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        tuple(bucket.arn_for_objects(f"{prefix}/*") for prefix in own),
        because=_OF_JOBS,
    )
    if team is None:
        return [Permission(("s3:ListBucket", "s3:GetBucketLocation"), (bucket.bucket_arn,)), change]
    listed = {"StringLike": {"s3:prefix": [f"{prefix}/*" for prefix in (*team.own, *team.shared)]}}
    found = [
        Permission(("s3:GetBucketLocation",), (bucket.bucket_arn,)),
        Permission(("s3:ListBucket",), (bucket.bucket_arn,), conditions=listed),
        change,
    ]
    if team.shared:
        shared = tuple(bucket.arn_for_objects(f"{prefix}/*") for prefix in team.shared)
        found.append(Permission(("s3:GetObject",), shared, because=_OF_JOBS))
    return found


def record_permissions(bucket: s3.IBucket) -> list[Permission]:
    """Return the permissions to find the runs of all teams by their records, and to read what the runs have written."""
    folders = (f"runs/{RECORDS}", f"runs/*/{RECORDS}")
    listed = {"StringLike": {"s3:prefix": [f"{folder}/*" for folder in folders]}}
    reads = tuple(bucket.arn_for_objects(f"{folder}/*") for folder in folders)
    return [
        Permission(("s3:ListBucket",), (bucket.bucket_arn,), conditions=listed),
        Permission(("s3:GetObject",), reads, because="A folder is named after its team, and a record after its run."),
    ]
