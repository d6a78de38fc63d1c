"""The stacks that every cluster stands on, and `Foundation`, which hands them to a cluster's stack."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk

from stacks.constructs.delivery.bundle import Bundles
from stacks.foundation.file_system import FileSystemStack
from stacks.foundation.network import NetworkStack
from stacks.foundation.registry import RegistryStack
from stacks.foundation.storage import StorageStack
from trainway.spec.facts.catalogue import Catalogue
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
