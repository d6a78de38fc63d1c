"""What every cluster stack is given, whatever orchestrates it."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk

from stacks.constructs.bundle import Bundle
from stacks.image import ImageStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack
from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class Foundation:
    """The platform, and the stacks that its cluster stands on."""

    platform: Platform
    catalogue: Catalogue
    bundle: Bundle
    network: NetworkStack
    storage: StorageStack
    image: ImageStack
    env: cdk.Environment
