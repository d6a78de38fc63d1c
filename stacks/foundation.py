"""What every cluster stack is given, whatever orchestrates it."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk

from stacks.constructs.bundle import Bundles
from stacks.file_system import FileSystemStack
from stacks.network import NetworkStack
from stacks.registry import RegistryStack
from stacks.storage import StorageStack
from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class Foundation:
    """The platform, and the stacks that its cluster stands on."""

    platform: Platform
    catalogue: Catalogue
    env: cdk.Environment
    bundles: Bundles
    network: NetworkStack
    storage: StorageStack
    file_system: FileSystemStack
    registry: RegistryStack
