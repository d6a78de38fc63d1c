"""The stacks that every cluster depends on, and `Foundation`, which passes them to a cluster's stack."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk

from stacks.constructs.delivery.bundle import Bundles
from stacks.foundation.file_system import FileSystemStack
from stacks.foundation.network import NetworkStack
from stacks.foundation.registry import RegistryStack
from stacks.foundation.storage import StorageStack
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class Foundation:
    """The platform, and the stacks that its cluster depends on."""

    platform: Platform
    catalogue: Catalogue
    env: cdk.Environment
    bundles: Bundles
    network: NetworkStack
    storage: StorageStack
    file_system: FileSystemStack
    registry: RegistryStack

    @property
    def images(self) -> dict[str, str]:
        """Return the URI of each further image of the platform, by the image's name."""
        return {name: each.uri for name, each in self.registry.images.items() if name != DEFAULT_IMAGE}
