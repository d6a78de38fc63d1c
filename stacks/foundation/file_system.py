"""The file systems: Lustre, and the one for home directories."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.delivery.bundle import Bundles
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.storage.former import tell_former
from stacks.constructs.storage.home import HomeFileSystem
from stacks.constructs.storage.lustre import LustreFileSystem
from stacks.constructs.storage.root_squash import root_squash_stage
from stacks.foundation.network import NetworkStack
from stacks.foundation.offer import offer
from stacks.foundation.storage import StorageStack
from trainway.spec.platform import Platform


class FileSystemStack(cdk.Stack):
    """The stack of the Lustre and OpenZFS file systems, in the Availability Zone of the first node group.

    `lustre` is the Lustre file system that jobs use, or None for a platform without one.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        network: NetworkStack,
        storage: StorageStack,
        bundles: Bundles,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: file system")
        # The name tells apart which file system jobs use.
        has_moved = platform.storage.lustre is None or any(
            each.generation > 1 for each in platform.storage.lustre_by_key.values()
        )
        made: dict[str, LustreFileSystem] = {}
        for key, each in platform.storage.lustre_by_key.items():
            made[key] = LustreFileSystem(
                self,
                # The first file system has this name because it existed before there were others. A new name would be a
                # new file system.
                "Lustre" if each.generation == 1 else f"Lustre{each.generation}",
                lustre=each,
                bucket=storage.bucket,
                vpc_id=network.vpc_id,
                subnet_id=network.storage_subnet_id,
                client_group_id=network.efa_group_id,
                name=f"{platform.name}/storage.{key}" if has_moved else None,
            )
            offer(self, made[key].file_system_id, made[key].dns_name, made[key].mount_name, made[key].security_group_id)
        self.lustre = made.get("lustre")
        if former := made.get("former_lustre"):
            tell_former(self, platform.name, former)
        squash = platform.storage.lustre and platform.storage.lustre.root_squash
        if self.lustre and squash:
            stage = root_squash_stage(
                self,
                platform=platform,
                squash=squash,
                file_system_id=self.lustre.file_system_id,
                network=network.build_network(),
            )
            name = f"{platform.name}-file-system"
            Delivery(self, "Delivery", name=name, bundle=bundles.mirror, bucket=storage.bucket, steps=[[stage]])
        self.home = None
        if platform.storage.home:
            self.home = HomeFileSystem(
                self,
                "Home",
                home=platform.storage.home,
                vpc_id=network.vpc_id,
                subnet_id=network.storage_subnet_id,
                client_group_id=network.efa_group_id,
            )
        if not made:
            # A stack has a resource at least. The stack stays, so that a deploy deletes the file system that it had.
            cdk.CfnWaitConditionHandle(self, "NoFileSystem")

    @property
    def of_jobs(self) -> LustreFileSystem:
        """The file system that jobs use. Raises LookupError for a platform without one."""
        if self.lustre is None:
            raise LookupError("the platform has no file system: its jobs keep everything in the data bucket")
        return self.lustre
