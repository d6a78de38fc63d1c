"""What a user's own image can be, and what can be added to the one that the deploy builds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.image.image_build import keeps_base_packages
from trainway.spec.image.image_reference import ecr_repository_of
from trainway.spec.platform import Platform
from trainway.spec.rule import Breach, image_rule, instance_types

DIGEST = re.compile(r"[^:@]+@sha256:[0-9a-f]{64}")
# The keys that say how an image is built. `keep` is of the repository, which stays.
BUILDS = (
    "versions",
    "variant",
    "base",
    "base_login",
    "base_packages",
    "add",
    "refresh",
    "build",
    "packages",
    "dockerfile",
    "replicate",
    "sign",
)


@image_rule
def an_image_of_the_users_is_pinned(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.uri` is an image in ECR by its digest: what a tag leads to can change between two nodes of a job."""
    if (uri := platform.image.uri) is None:
        return
    found = ecr_repository_of(uri)
    if found is None or not found.name:
        remedy = "push it to a repository of ECR, and write 111122223333.dkr.ecr.us-west-2.amazonaws.com/NAME@sha256:…"
        yield ("image", "uri"), "it is not an image in ECR, which is where the nodes' roles may pull", remedy
    elif not DIGEST.fullmatch(uri):
        tag = uri.partition("@")[0].rpartition("/")[2].partition(":")[2]
        command = (
            f"aws ecr describe-images --registry-id {found.account} --region {found.region} --repository-name "
            f"{found.name} --image-ids imageTag={tag or 'TAG'} --query imageDetails[0].imageDigest --output text"
        )
        reason = "it has no digest, and a tag can move" if "@" not in uri else "it is not an image by its digest alone"
        named = f"{uri.partition('/')[0]}/{found.name}"
        yield ("image", "uri"), reason, f"write {named}@sha256:…, with the digest that `{command}` prints"


@image_rule
def an_image_of_the_users_is_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.uri` is in the platform's Region: a closed network reaches no other, and a login is for one Region.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html (read 2026-11-23)
    """
    found = ecr_repository_of(platform.image.uri or "")
    if found and found.region != platform.region:
        reason = f"its registry is in {found.region}, and the nodes are in {platform.region}"
        remedy = f"replicate the repository to {platform.region}, and name the copy, which has the same digest"
        yield ("image", "uri"), reason, remedy


@image_rule
def an_image_of_the_users_is_not_built(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No key that says how an image is built stands beside `image.uri`."""
    for key in BUILDS if platform.image.uri is not None else ():
        if key in platform.image.model_fields_set:
            reason = "image.uri is an image of yours, so the deploy builds none"
            yield ("image", key), reason, f"remove {key}, or remove image.uri"


@image_rule
def packages_beside_those_of_a_base_are_in_a_dockerfile(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """`image.packages.pip` is resolved against a list of the image's packages. A base that keeps its own has none."""
    if not platform.image.packages.pip or any(name not in catalogue for _, name in instance_types(platform)):
        return
    if keeps_base_packages(platform, catalogue):
        reason = "the packages of image.base are kept and in no list, which these could be chosen to fit"
        yield ("image", "packages", "pip"), reason, "install them in a Dockerfile of yours: image.dockerfile"


@image_rule
def packages_are_named_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A package that stands twice was meant to be another one, or another version."""
    for manager, names in {"apt": platform.image.packages.apt, "pip": platform.image.packages.pip}.items():
        for index in _repeated(names):
            yield ("image", "packages", manager, index), "the package stands twice", "remove one of the two"


def _repeated(items: Sequence[str]) -> Iterator[int]:
    """Yield the positions of items whose package stands before them, in whatever version."""
    names = [re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._+-]", item)[0]).lower() for item in items]
    return (index for index, name in enumerate(names) if name in names[:index])
