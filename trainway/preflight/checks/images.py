"""Images of yours in ECR: that they are there, and that their labels and processors suit the nodes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainway.preflight.aws import READ_SECONDS, NotAnswered
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.image.image_build import variant_of
from trainway.spec.image.image_reference import EcrRepository, ecr_repository_of
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import path_of_image

# A label of Trainway's own images, which images on their base have, too (container/Dockerfile).
VARIANT_LABEL: Final = "trainway.variant"
# The names that ECR's manifests have for the processors of the catalogue.
_PROCESSORS: Final = {"amd64": "x86_64"}
MANIFESTS: Final = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
]


@check("ecr:DescribeImages", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
def images(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each image of `image.uri` is in ECR, and its labels and its processor are those that the nodes require."""
    for name in inquiry.platform.image_names:
        platform = inquiry.platform.of_image(name)
        repository = ecr_repository_of(platform.image.uri or "")
        if platform.image.uri is None or repository is None:
            continue
        key = path_of_image(name, ("image", "uri"))
        digest = platform.image.uri.partition("@")[2]
        absent = ["ImageNotFoundException", "RepositoryNotFoundException"]
        found = inquiry.aws.ask(
            "ecr",
            "describe_images",
            registryId=repository.account,
            repositoryName=repository.name,
            imageIds=[{"imageDigest": digest}],
            absent=absent,
        )
        if found is None:
            yield error(
                f"ECR has no image {digest[:19]}… in {repository.name}",
                why=f"nodes pull it from account {repository.account} in {repository.region}",
                fix="push the image, or write the digest of one that is there",
                key=key,
            )
            continue
        yield from _suits(inquiry, platform, _config(inquiry, repository, digest), key)


def _suits(
    inquiry: Inquiry, platform: Platform, config: Mapping[str, Any] | None, key: KeyPath
) -> Iterator[AccountFinding]:
    if config is None:
        return  # an index of several images, of which nodes take theirs
    variant, nodes = variant_of(platform, inquiry.catalogue), platform.image_groups
    labels = (config.get("config") or {}).get("Labels") or {}
    built = labels.get(VARIANT_LABEL)
    if built is not None and built != variant:
        yield error(
            f"the image is for {built}",
            why=f"its label {VARIANT_LABEL} says so, and jobs on {nodes[0].name} compute on {variant}",
            fix=f"write an image for {variant}",
            key=key,
        )
    architecture = inquiry.catalogue[nodes[0].instance_type].architecture
    processor = _PROCESSORS.get(str(config.get("architecture")), str(config.get("architecture")))
    if "architecture" in config and processor != architecture:
        yield error(
            f"the image is for processors of {processor}",
            why=f"{nodes[0].instance_type} has {architecture}",
            fix=f"build the image for {architecture}",
            key=key,
        )


def _config(inquiry: Inquiry, repository: EcrRepository, digest: str) -> Mapping[str, Any] | None:
    """Return the configuration of an image, with its labels. Raises NotAnswered if ECR does not give it."""
    where = {"registryId": repository.account, "repositoryName": repository.name}
    answer = inquiry.aws.ask(
        "ecr", "batch_get_image", **where, imageIds=[{"imageDigest": digest}], acceptedMediaTypes=MANIFESTS
    )
    listed = (answer or {}).get("images", [])
    manifest = json.loads(listed[0]["imageManifest"]) if listed else {}
    if "config" not in manifest:
        return None
    layer = manifest["config"]["digest"]
    link = inquiry.aws.ask("ecr", "get_download_url_for_layer", **where, layerDigest=layer) or {}
    try:
        with urllib.request.urlopen(link["downloadUrl"], timeout=READ_SECONDS) as response:
            config: dict[str, Any] = json.load(response)
    except (OSError, ValueError) as failure:
        fix = "check the network of this machine, and run the command again"
        raise NotAnswered("ecr:GetDownloadUrlForLayer", f"the image's labels cannot be read: {failure}", fix) from None
    return config
