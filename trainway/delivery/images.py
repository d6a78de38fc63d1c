"""The training images of a deployed platform: which one jobs use, whether it is there, and choosing another."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from trainway.delivery.pipeline_run import MakeClient
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import BuiltImage, ChosenImage
from trainway.spec.handoff_names import DEFAULT_IMAGE, chosen_image_parameter_name, image_parameter_name
from trainway.spec.sections.image import SEVERITIES

IMAGE: Final = re.compile(
    r"(?P<registry>\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?)/(?P<name>[^@:]+)"
)
PINNED: Final = re.compile(IMAGE.pattern + r"@(?P<digest>sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class StoredImage:
    """An image in the platform's repository: its digest, tags, size in bytes, and when it was pushed."""

    digest: str
    tags: tuple[str, ...]
    bytes: int
    pushed: datetime


@dataclass(frozen=True)
class Scan:
    """The result of ECR's last scan of an image: its state, and the number of findings by severity, the worst first."""

    state: str
    findings: Mapping[str, int]


@dataclass(frozen=True)
class PlatformImages:
    """An image of a platform as jobs use it, why it is that one, and what its repository has, the newest first."""

    built: BuiltImage
    pinned: str
    because: str
    stored: tuple[StoredImage, ...]
    name: str = DEFAULT_IMAGE

    @property
    def packages(self) -> date | None:
        """Return the day of the Ubuntu snapshot that the packages of the image in use are from, or None if not known.

        The platform knows the day of what its own pipeline builds. A promoted image has its day in its label
        trainway.ubuntu-snapshot.
        """
        return self.built.packages if self.is_of_the_pipeline else None

    @property
    def is_of_the_pipeline(self) -> bool:
        """Whether the platform's own pipeline built the image in use."""
        tag = self.built.uri.rpartition(":")[2]
        used = self.pinned.rpartition("@")[2]
        own = (each for each in self.stored if any(name.partition("-")[0] == tag for name in each.tags))
        return self.pinned == self.built.pinned or used in {each.digest for each in own}

    @property
    def is_users(self) -> bool:
        """Whether `image.uri` names the image, so that no pipeline builds it: it is known by its digest alone."""
        return "@" in self.built.uri

    @property
    def exists(self) -> bool:
        """Whether the repository has the image that jobs use. An image of the user's is not looked for."""
        if self.is_users:
            return True
        return self.pinned.rpartition("@")[2] in {each.digest for each in self.stored}


def images_of(client: MakeClient, platform: str, image: str = DEFAULT_IMAGE) -> PlatformImages | None:
    """Return an image of a platform, or None if its stack was not deployed. Raises UsageError if AWS refuses."""
    built_text = _parameter(client, image_parameter_name(platform, image))
    if built_text is None:
        return None
    built = BuiltImage.model_validate_json(built_text)
    chosen_text = _parameter(client, chosen_image_parameter_name(platform, image))
    chosen = ChosenImage.model_validate_json(chosen_text) if chosen_text else None
    if "@" in built.uri:
        return PlatformImages(built, built.pinned, "image.uri", (), image)
    stored = stored_images(client, _repository(built))
    if chosen and chosen.instead_of == built.pinned:
        return PlatformImages(built, chosen.pinned, chosen.because, stored, image)
    return PlatformImages(built, built.pinned, "built last", stored, image)


def stored_images(client: MakeClient, repository: str) -> tuple[StoredImage, ...]:
    """Return the images of a repository, the newest first. Raises UsageError if AWS refuses."""
    pages = asked(lambda: list(client("ecr").get_paginator("describe_images").paginate(repositoryName=repository)))
    found = [
        StoredImage(
            each["imageDigest"],
            tuple(each.get("imageTags", ())),
            each.get("imageSizeInBytes", 0),
            each["imagePushedAt"],
        )
        for page in pages
        for each in page["imageDetails"]
    ]
    return tuple(sorted(found, key=lambda each: each.pushed, reverse=True))


def scan_of(client: MakeClient, images: PlatformImages) -> Scan | None:
    """Return the scan of the image that jobs use, or None if there is none. Raises UsageError if AWS refuses."""
    from botocore.exceptions import ClientError

    def ask() -> dict[str, Any] | None:
        image = {"imageDigest": images.pinned.rpartition("@")[2]}
        try:
            answer: dict[str, Any] = client("ecr").describe_image_scan_findings(
                repositoryName=_repository(images.built), imageId=image, maxResults=1
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in ("ScanNotFoundException", "ImageNotFoundException"):
                return None
            raise
        return answer

    answer = asked(ask)
    if answer is None:
        return None
    counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
    order = [each.upper() for each in SEVERITIES]
    known = sorted(counts, key=lambda name: order.index(name) if name in order else len(order))
    return Scan(answer.get("imageScanStatus", {}).get("status", "UNKNOWN"), {name: counts[name] for name in known})


def signature_of(client: MakeClient, images: PlatformImages) -> str | None:
    """Return a sentence about the signature of the image that jobs use, or None if the platform has none signed.

    Raises UsageError if AWS refuses.
    """
    signer = images.built.signer
    if signer is None or not images.exists:
        return None
    answer = asked(
        lambda: client("ecr").describe_image_signing_status(
            repositoryName=_repository(images.built), imageId={"imageDigest": images.pinned.rpartition("@")[2]}
        )
    )
    for each in answer.get("signingStatuses", ()):
        if each["signingProfileArn"] == signer:
            state = each["status"]
            why = f": {each.get('failureReason', 'no reason is given')}" if state == "FAILED" else f" by {signer}"
            words = {"COMPLETE": "signed", "IN_PROGRESS": "being signed", "FAILED": "not signed"}
            return f"{words.get(state, state.lower())}{why}"
    return f"not signed by {signer}: it was pushed before, or by somebody without signer:SignPayload on the profile"


def bill_of_materials(client: MakeClient, images: PlatformImages) -> str:
    """Return the SPDX document of the packages of the image that jobs use, as JSON.

    Raises UsageError if the platform keeps none of that image, or AWS refuses.
    """
    found = re.fullmatch(r"s3://([^/]+)/(.+)", images.built.bill or "")
    if not found or not images.is_of_the_pipeline:
        why = "another platform built it" if found else "the deploy that built it kept none"
        fix = (
            "run this on that platform, or copy the file /opt/trainway/sbom.spdx.json out of the image"
            if found
            else "deploy again"
        )
        raise usage_error(f"there is no list of the packages of {images.pinned}", why=why, fix=fix)

    def get() -> str:
        stored = client("s3").get_object(Bucket=found[1], Key=found[2])
        return str(stored["Body"].read().decode())

    document: str = asked(get)
    return document


def scan_as_text(scan: Scan | None) -> str:
    """Return what `trainway image status` prints of a scan."""
    if scan is None:
        return "ECR has not scanned it"
    found = ", ".join(f"{count} {name.lower()}" for name, count in scan.findings.items() if count) or "no findings"
    done = ("COMPLETE", "ACTIVE")
    return f"scan: {found}" if scan.state in done else f"scan: {scan.state.lower()}"


def choose(client: MakeClient, platform: str, images: PlatformImages, digest: str, because: str) -> str:
    """Make jobs use an image of the platform's repository, and return it by its digest.

    The choice is in a parameter of its own, which no stack has. It has an effect until a deploy builds another image.
    The image that the deploy built needs no choice.
    """
    pinned = f"{images.built.pinned.rpartition('@')[0]}@{digest}"
    name, ssm = chosen_image_parameter_name(platform, images.name), client("ssm")
    if pinned == images.built.pinned:
        if _parameter(client, name) is not None:
            asked(lambda: ssm.delete_parameter(Name=name))
        return pinned
    choice = ChosenImage(pinned=pinned, instead_of=images.built.pinned, because=because)
    value = choice.model_dump_json()
    about = "The training image that takes the place of the one that the deploy built"
    asked(lambda: ssm.put_parameter(Name=name, Type="String", Value=value, Description=about, Overwrite=True))
    return pinned


def digest_of(client: MakeClient, images: PlatformImages, tag: str) -> str:
    """Return the digest of a tag of the platform's repository. Raises UsageError if the tag does not exist."""
    for each in stored_images(client, _repository(images.built)):
        if tag in each.tags:
            return each.digest
    raise usage_error(
        f"{_repository(images.built)}:{tag} does not exist",
        why="the pipeline succeeded, and the image is not in ECR",
        fix="deploy again, so that the pipeline builds what this platform waits for",
    )


def copy_image(
    client: Callable[[str, str, str], Any], images: PlatformImages, source: str, say: Callable[[str], None]
) -> str:
    """Copy an image from another ECR repository into the platform's own and return its digest, which stays the same.

    `client` takes a service, a Region, and the registry that it is for. docker copies from registry to registry.
    Raises UsageError if `source` is no image by its digest, docker is missing, or ECR refuses.
    """
    found = PINNED.fullmatch(source)
    if not found:
        raise usage_error(
            f"{source} cannot be promoted",
            why="it is not an image in ECR by its digest",
            fix="write 111122223333.dkr.ecr.us-west-2.amazonaws.com/NAME@sha256:…, as `trainway image status` of the "
            "other platform shows it",
        )
    digest = found["digest"]
    if digest in {each.digest for each in images.stored}:
        say(f"{digest} is in {_repository(images.built)} already")
        return digest
    if shutil.which("docker") is None:
        fix = "run this on a machine with docker and its plugin buildx"
        raise usage_error(f"{source} cannot be copied", why="this machine has no docker", fix=fix)
    own = IMAGE.match(images.built.pinned)
    assert own is not None
    for registry in dict.fromkeys((found["registry"], own["registry"])):
        _log_in(client, registry, own["region"] if registry == own["registry"] else found["region"])
    target = f"{own['registry']}/{own['name']}:promoted-{digest.removeprefix('sha256:')[:16]}"
    # From registry to registry, byte for byte, as the mirror does. https://docs.docker.com/reference/cli/docker/buildx/imagetools/create/
    _docker(["buildx", "imagetools", "create", "--prefer-index=false", "--tag", target, source])
    say(f"copied {source} to {target}")
    return digest


def again_tag(images: PlatformImages, now: datetime | None = None) -> tuple[str, str]:
    """Return the word for a second image of the same content, and that image's tag."""
    word = (now or datetime.now(UTC)).strftime("%Y%m%d%H%M%S")
    return word, f"{images.built.uri.rpartition(':')[2]}-{word}"


def age_of_packages(images: PlatformImages, today: date | None = None) -> str:
    """Return a sentence about how old the packages of the image in use are on a day, by default today in UTC."""
    day = images.packages
    if day is None:
        return "its Ubuntu packages follow no known snapshot"
    days = ((today or datetime.now(UTC).date()) - day).days
    return f"its Ubuntu packages are those of {day}, {days} day{'' if days == 1 else 's'} old"


def as_json(images: PlatformImages, scan: Scan | None) -> dict[str, Any]:
    """Return what `trainway image status --json` prints of the images."""
    stored = [
        {"digest": each.digest, "tags": list(each.tags), "bytes": each.bytes, "pushed": each.pushed.isoformat()}
        for each in images.stored
    ]
    return {
        "used": images.pinned,
        "because": images.because,
        "exists": images.exists,
        "packages": images.packages.isoformat() if images.packages else None,
        "scan": asdict(scan) if scan else None,
        "images": stored,
    }


def _repository(built: BuiltImage) -> str:
    return built.pinned.partition("/")[2].rpartition("@")[0]


def _log_in(client: Callable[[str, str, str], Any], registry: str, region: str) -> None:
    import base64

    token = asked(lambda: client("ecr", region, registry).get_authorization_token())["authorizationData"][0][
        "authorizationToken"
    ]
    password = base64.b64decode(token).decode().partition(":")[2]
    _docker(["login", "--username", "AWS", "--password-stdin", registry], password)


def _docker(words: Sequence[str], text: str = "") -> None:
    ran = subprocess.run(["docker", *words], input=text, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = ran.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        fix = (
            "you need ecr:BatchGetImage and ecr:GetDownloadUrlForLayer on the source, which in another account its "
            "repository's policy gives, and ecr:InitiateLayerUpload, UploadLayerPart, CompleteLayerUpload, PutImage, "
            "BatchCheckLayerAvailability, and BatchGetImage on the platform's repository"
        )
        raise usage_error(f"`docker {' '.join(words[:3])}` failed", why=last[0], fix=fix)


def _parameter(client: MakeClient, name: str) -> str | None:
    from botocore.exceptions import ClientError

    def get() -> str | None:
        ssm = client("ssm")
        try:
            return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "ParameterNotFound":
                return None
            raise

    found: str | None = asked(get)
    return found


def asked(call: Callable[[], Any]) -> Any:
    """Return what a call of AWS returns. Raises UsageError if AWS refuses it or cannot be reached."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except ClientError as error:
        why, fix = error.response["Error"]["Message"], f"you need the permission for {error.operation_name}"
        raise usage_error("AWS refused a call", why=why, fix=fix) from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error("AWS cannot be asked", why=str(error), fix=fix) from None


def not_deployed(platform: str, image: str = DEFAULT_IMAGE) -> UsageError:
    """Return the error for a platform without the stack of an image."""
    why = f"there is no parameter {image_parameter_name(platform, image)}"
    what = "no training image" if image == DEFAULT_IMAGE else f"no image {image}"
    return usage_error(f"{platform} has {what}", why=why, fix="`make deploy` builds it")


def json_text(document: object) -> str:
    """Return a document as `--json` prints it."""
    return json.dumps(document, indent=2)
