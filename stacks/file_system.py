"""The file system that is fast."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.lustre import LustreFileSystem
from stacks.network import NetworkStack
from stacks.storage import StorageStack
from trainway.spec.platform import Platform


class FileSystemStack(cdk.Stack):
    """In the capacity's zone, the Lustre file system that mirrors the data bucket."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        network: NetworkStack,
        storage: StorageStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: file system")
        self.lustre = LustreFileSystem(
            self,
            "Lustre",
            lustre=platform.storage.lustre,
            bucket=storage.bucket,
            vpc_id=network.vpc_id,
            subnet_id=network.storage_subnet_id,
            client_group_id=network.efa_group_id,
        )
