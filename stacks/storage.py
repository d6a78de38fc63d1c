"""Storage: the bucket that keeps, and the file system that is fast."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.data_bucket import DataBucket
from stacks.constructs.lustre import LustreFileSystem
from stacks.network import NetworkStack
from trainway.spec.platform import Platform


class StorageStack(cdk.Stack):
    """The data bucket and, in the capacity's zone, the Lustre file system that mirrors it."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, network: NetworkStack, env: cdk.Environment
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: storage")
        self.bucket = DataBucket(self, "Data").bucket
        self.lustre = LustreFileSystem(
            self,
            "Lustre",
            lustre=platform.storage.lustre,
            bucket=self.bucket,
            vpc_id=network.vpc_id,
            subnet_id=network.storage_subnet_id,
            client_group_id=network.efa_group_id,
        )
