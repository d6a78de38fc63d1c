"""Where copies of the training image can be."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.partition import partition_of
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, image_rule


@image_rule
def copies_are_elsewhere(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.replicate` names another Region or another account."""
    wanted = platform.image.replicate
    if wanted is None or wanted.accounts:
        return
    if set(wanted.regions) <= {platform.region}:
        reason = f"the image is in {platform.region} already, and no other Region or account is named"
        yield ("image", "replicate"), reason, "name a Region or an account, or remove the key"


@image_rule
def copies_are_in_the_partition(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Credentials of a partition, such as China's, are unknown in the others."""
    for index, region in enumerate(platform.image.replicate.regions if platform.image.replicate else ()):
        if partition_of(region) != partition_of(platform.region):
            reason = f"roles of {platform.region} have no rights there"
            remedy = "copy the image by hand with `trainway image promote --from`, from a platform there"
            yield ("image", "replicate", "regions", index), reason, remedy


@image_rule
def a_closed_network_reaches_no_other_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """VPC endpoints of ECR answer for their own Region."""
    if not platform.network.is_closed or platform.image.replicate is None:
        return
    for index, region in enumerate(platform.image.replicate.regions):
        if region != platform.region:
            reason = f"builds of a closed network do not reach the registry in {region}"
            remedy = "remove it, and copy the image from outside with `trainway image promote --from`"
            yield ("image", "replicate", "regions", index), reason, remedy
