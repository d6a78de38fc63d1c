"""The names of a platform's images."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def the_default_image_has_its_own_section(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`images` has no image of the name that the section `image` has."""
    if DEFAULT_IMAGE in platform.images:
        reason = f"{DEFAULT_IMAGE} is the name of the image that the section `{DEFAULT_IMAGE}` describes"
        yield ("images", DEFAULT_IMAGE), reason, "give it another name, or write its keys below `image`"


@rule
def a_group_names_an_image_of_the_platform(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image` of a node group is a name of `images`."""
    names = platform.image_names
    for index, group in enumerate(platform.node_groups):
        if group.image is not None and group.image not in names:
            close = difflib.get_close_matches(group.image, names, n=1)
            remedy = f"did you mean {close[0]}?" if close else "describe it below `images`, or remove the key"
            yield ("node_groups", index, "image"), f"there is no image {group.image} in `images`", remedy
