"""What a launch knows of its platform: the hand-off of the last deploy, or what the platform file describes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from trainway.launch.platform.described import STAND_INS, described_hand_off, described_image
from trainway.launch.platform.hand_off import NotReadError, read_hand_off, read_image
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.jobs.obtainable import completed
from trainway.spec.platform import Platform

HandOffSource = Literal["deployed", "deployed or file", "file"]
"""Where a hand-off is from. A launch needs a `deployed` platform, a dry run reads the `deployed` one if it can."""


@dataclass(frozen=True)
class KnownPlatform:
    """A platform file, and the hand-off. If it is not `deployed`, the hand-off is what the file describes."""

    platform: Platform
    hand_off: HandOff
    deployed: bool = True

    def image(self, name: str) -> str:
        """Return an image of the platform by its digest.

        Raises UsageError if the platform has no image of this name, and as `read_image` does if it is deployed.
        """
        if self.deployed:
            return read_image(self.platform, self.hand_off, name)
        if name not in (known := self.hand_off.image_uris):
            why = f"the platform file of {self.platform.name} describes no image of this name"
            fix = f"use one of {', '.join(known)}, or describe it below `images`"
            raise usage_error(f"there is no image {name}", why=why, fix=fix)
        return described_image(self.hand_off, name)


def known_platform(platform: Platform, catalogue: Catalogue, source: HandOffSource) -> KnownPlatform:
    """Return what is known of a platform. Standard error says if the file is used because AWS cannot be asked.

    Raises UsageError as `read_hand_off` does, unless the source may be the file.
    """
    if source != "file":
        try:
            return KnownPlatform(platform, completed(read_hand_off(platform), platform, catalogue))
        except NotReadError as error:
            if source == "deployed":
                raise
            why = f"the deployed platform was not read: {error.why.rstrip('.')}"
            print(f"platform: {platform.name} as its file describes it, because {why}; {STAND_INS}", file=sys.stderr)
    return KnownPlatform(platform, described_hand_off(platform, catalogue), deployed=False)
