"""Promoting the image of one platform to another one."""

from __future__ import annotations

from trainway.delivery.images import images_of, not_deployed
from trainway.delivery.pipeline_run import MakeClient
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import variant_of
from trainway.spec.platform import Platform


def image_in_use(client: MakeClient, other: Platform, platform: Platform) -> str:
    """Return the image of the platform `other` by its digest, as jobs use it there.

    Both platforms are as their image sees them (Platform.of_image).

    Raises UsageError if the other platform has no image, ECR has lost it, or it is for accelerators that the nodes of
    `platform` do not have.
    """
    catalogue = load_catalogue()
    source, target = variant_of(other, catalogue), variant_of(platform, catalogue)
    if source != target:
        raise usage_error(
            f"the image of {other.name} cannot be promoted to {platform.name}",
            why=f"it is for {source}, and jobs of {platform.name} need an image for {target}",
            fix="promote the image of a platform with such nodes, or build one with `make deploy`",
        )
    images = images_of(client, other.name, other.image_name)
    if images is None:
        raise not_deployed(other.name, other.image_name)
    if not images.exists:
        raise usage_error(
            f"the image of {other.name} cannot be promoted",
            why=f"{images.pinned} is gone",
            fix="build it again with `trainway image rebuild --platform` and the file of that platform",
        )
    return images.pinned
