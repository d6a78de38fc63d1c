"""Storage: the stack of the data bucket."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.storage.data_bucket import DataBucket
from trainway.spec.platform import Platform


class StorageStack(cdk.Stack):
    """The data bucket, which exists before and after everything else."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, account: str | None, env: cdk.Environment
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: storage")
        self.bucket = DataBucket(self, "Data", platform=platform, account=account).bucket
