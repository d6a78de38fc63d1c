"""What the stages of an image's pipeline are told, and where the image and its base are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aws_cdk import aws_s3 as s3

from delivery.content_hash import NONE
from stacks.constructs.delivery.bundle import ImageBundle
from stacks.constructs.iam.permissions import Permission
from trainway.spec.handoff_names import image_repository
from trainway.spec.platform import Platform

TOOLS_PREFIX = "delivery"
# Below it, the list of the packages of each base of the images, and the provenance of each image.
BILLS_PREFIX = f"{TOOLS_PREFIX}/bills"


@dataclass(frozen=True)
class ImageSettings:
    """An image of the platform: its `repository` by name, its `uri` by its tag, and the environments of its stages.

    `base_source` is what the base alone is built with, and `additions` is None for an image with nothing on its base.
    `bill` is where the list of its packages is, and `keep_bills` the permission to
    write it, and the provenance beside it.
    """

    repository: str
    tag: str
    uri: str
    base: Mapping[str, str]
    base_source: Mapping[str, str]
    additions: Mapping[str, str] | None
    image: Mapping[str, str]
    bill: str
    keep_bills: Permission


def image_settings(
    platform: Platform, bundle: ImageBundle, location: Mapping[str, str], bucket: s3.IBucket
) -> ImageSettings:
    """Return the settings of the image that `image` of the platform describes.

    `location` says where the registry is, as every stage is told: its host, and the prefix of mirrored repositories.
    """
    repository, image = image_repository(platform.name, platform.image_name), platform.image
    bills = f"s3://{bucket.bucket_name}/{BILLS_PREFIX}"
    told = {
        "BILLS_URI": bills,
        "BASE_LOGIN_SECRET": image.base_login and image.base_login.secret,
        "PIP_INDEX": image.build.pip_index,
        "PIP_INDEX_SECRET": image.build.pip_login and image.build.pip_login.secret,
    }
    base, source = {**location, "BASE_TAG": bundle.base_tag}, {name: value for name, value in told.items() if value}
    index = {name: value for name, value in source.items() if name.startswith("PIP_")}
    tags = {"PACKAGES_TAG": bundle.packages_tag, "DOCKERFILE_TAG": bundle.dockerfile_tag}
    built_on = bundle.dockerfile_tag or bundle.packages_tag or bundle.base_tag
    return ImageSettings(
        repository=repository,
        tag=bundle.tag,
        uri=image.uri or f"{location['MIRROR_REGISTRY']}/{repository}:{bundle.tag}",
        base=base,
        base_source=source,
        additions={**base, "BILLS_URI": bills, **index, **{name: tag or NONE for name, tag in tags.items()}}
        if any(tags.values())
        else None,
        # What the last stage of the image is built on.
        image={
            **location,
            "BASE_TAG": built_on,
            "BILLS_URI": bills,
        },
        bill=f"{bills}/{built_on}.spdx.json",
        keep_bills=Permission(
            ("s3:PutObject",),
            (bucket.arn_for_objects(f"{BILLS_PREFIX}/*"),),
            because="Lists of packages and provenance are named by tags and digests, below their own prefix.",
        ),
    )


def after_the_same_base(images: Mapping[str, ImageSettings]) -> Iterator[tuple[str, str]]:
    """Yield each image whose base an earlier one has, and that image, by their names."""
    first = dict[str, str]()
    for name, settings in images.items():
        base = settings.base["BASE_TAG"]
        if base in first:
            yield name, first[base]
        else:
            first[base] = name
