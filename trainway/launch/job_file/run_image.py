"""The image that a job names by its digest, and whether it fits the nodes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from trainway.image_doctor.diagnosis import diagnose
from trainway.image_doctor.rules import ImageSeverity
from trainway.image_doctor.stored_image import MANIFESTS, config_subject
from trainway.image_doctor.subject import Subject
from trainway.launch.program.allocation import Allocation
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.image.image_reference import EcrRepository, ecr_repository_of, registry_of

# An image without registry is of the platform's own.
BY_DIGEST: Final = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")
# Of the training image, and of every image that is built on its base: container/Dockerfile.
EFA_LABEL: Final = "trainway.efa-installer"
_ALL: Final = "`trainway image doctor {}` reads its files, too"
# The catalogue's names of architectures, and those of the OCI image specification.
_OCI_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_ABSENT = ("ImageNotFoundException", "RepositoryNotFoundException")


def image_by_digest(image: str, hand_off: HandOff) -> str:
    """Return the whole name of an image: one without registry is in that of the platform's own images."""
    own = registry_of(hand_off.image_uri)
    return f"{own}/{image}" if registry_of(image) == "docker.io" and not image.startswith("docker.io/") else image


def check_image(
    image: str,
    allocation: Allocation,
    catalogue: Catalogue,
    environment: Mapping[str, str] | None = None,
    *,
    allow_tcp: bool = False,
) -> bool:
    """Check that ECR has an image, and that nothing in its configuration keeps it from EFA if the nodes have EFA.

    Return whether the image is known to have AWS's plugin for NCCL. `environment` has variables of the job, which take
    the place of those of the image. Prints a warning to standard error about what cannot be read, and about what keeps
    the image from EFA. Raises UsageError if ECR does not have the image, or if it is certain that NCCL cannot use EFA,
    unless `allow_tcp`.
    """
    repository = ecr_repository_of(image)
    instance = catalogue[allocation.group.instance_type]
    has_efa = allocation.nodes > 1 and instance.efa_interfaces > 0
    if repository is None:
        _warn(image, "it is in no ECR registry, so nothing of it is checked")
        return False
    config = _config(image, repository, _OCI_ARCHITECTURES[instance.architecture])
    if config is None:
        return False
    subject = config_subject(image, config)
    if has_efa:
        _say_findings(image, subject, environment or {}, allow_tcp=allow_tcp)
    return bool(subject.labels.get(EFA_LABEL))


def _say_findings(image: str, subject: Subject, environment: Mapping[str, str], *, allow_tcp: bool) -> None:
    """Print what keeps an image from EFA. Raises UsageError for what does so in every case, unless `allow_tcp`."""
    subject = replace(
        subject, variables={name: each for name, each in subject.variables.items() if name not in environment}
    )
    errors = [each for each in diagnose(subject).findings if each.severity is ImageSeverity.ERROR]
    for each in errors:
        if each.is_certain and not allow_tcp:
            fix = (
                f"build the image without it, set the variable in `run.environment`, or launch with --allow-tcp. {_ALL}"
            )
            raise usage_error(
                f"the image {image} does not use EFA", why=f"{each.what}: {each.why}", fix=fix.format(image)
            )
        _warn(image, f"{each.what}: {each.why}; {each.fix}")
    if not subject.labels.get(EFA_LABEL):
        _warn(
            image,
            f"it has no label {EFA_LABEL}. Without libfabric and the OFI NCCL plugin, its ranks use TCP and not EFA. "
            + _ALL.format(image),
        )


def _config(image: str, repository: EcrRepository, architecture: str) -> dict[str, Any] | None:
    """Return the configuration of an image, or None, with a warning, if it cannot be read.

    Raises UsageError if the image is not there, or not for the architecture of the nodes.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    ecr = boto3.client("ecr", region_name=repository.region)
    try:
        manifest = _manifest(ecr, repository, image.partition("@")[2])
        if manifest is None:
            fix = "name an image that is there: `aws ecr describe-images` lists those of a repository"
            why = f"{repository.name} in {repository.region} does not have this digest"
            raise usage_error(f"the image {image} cannot be pulled", why=why, fix=fix)
        if "manifests" in manifest:
            # An index has a manifest for each architecture.
            of_nodes = [
                each["digest"] for each in manifest["manifests"] if each["platform"]["architecture"] == architecture
            ]
            manifest = _manifest(ecr, repository, of_nodes[0]) if of_nodes else None
            if manifest is None:
                raise _cannot_run(image, f"it has no manifest for linux/{architecture}")
        found = ecr.get_download_url_for_layer(
            registryId=repository.account, repositoryName=repository.name, layerDigest=manifest["config"]["digest"]
        )
        with urlopen(found["downloadUrl"], timeout=20) as answer:
            config: dict[str, Any] = json.load(answer)
        if (built := config.get("architecture", architecture)) != architecture:
            raise _cannot_run(image, f"it is for linux/{built}, and the nodes are linux/{architecture}")
        return config
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            why, fix = error.response["Error"]["Message"], "name a repository and a digest that are there"
            raise usage_error(f"the image {image} cannot be pulled", why=why, fix=fix) from None
        _warn(image, f"its labels cannot be read: {error.response['Error']['Message']}")
    except (BotoCoreError, URLError, OSError, ValueError, KeyError) as error:
        _warn(image, f"its labels cannot be read: {error}")
    return None


def _cannot_run(image: str, why: str) -> UsageError:
    return usage_error(f"the image {image} cannot run", why=why, fix="build it for the processors of the nodes")


def _manifest(ecr: Any, repository: EcrRepository, digest: str) -> dict[str, Any] | None:
    answer = ecr.batch_get_image(
        registryId=repository.account,
        repositoryName=repository.name,
        imageIds=[{"imageDigest": digest}],
        acceptedMediaTypes=list(MANIFESTS),
    )
    found: dict[str, Any] | None = json.loads(answer["images"][0]["imageManifest"]) if answer["images"] else None
    return found


def _warn(image: str, what: str) -> None:
    print(f"warning: the image {image}: {what}", file=sys.stderr)
