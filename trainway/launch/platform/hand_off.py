"""Reading the hand-off of a deployed platform."""

from __future__ import annotations

import json
import sys
from typing import Any, Final, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from trainway.spec.deployed_file import DeployedFile, deployed_file_name
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import (
    POINTER_VERSION,
    SCHEMA_VERSION,
    BuiltImage,
    ChosenImage,
    Deployer,
    HandOff,
    Pointer,
    fill,
)
from trainway.spec.handoff_names import (
    DEFAULT_IMAGE,
    chosen_image_parameter_name,
    image_parameter_name,
    image_stack_name,
    parameter_name,
)

Model = TypeVar("Model", bound=BaseModel)
CREDENTIALS: Final = "`aws sts get-caller-identity` shows whether this shell has credentials"
SAME_VERSION: Final = "deploy again with this version, or launch with the one that deployed"


class DeployedPlatform(Protocol):
    """What finds the hand-off of a platform: a platform file has it, and so has a person who knows both words."""

    @property
    def name(self) -> str:
        """Return the name of the platform."""

    @property
    def region(self) -> str:
        """The AWS Region that it is in."""


class NotReadError(UsageError):
    """AWS does not answer, or refuses: without credentials, for example, or without a network. `why` is its reason."""

    def __init__(self, what: str, *, why: str, fix: str) -> None:
        super().__init__(str(usage_error(what, why=why, fix=fix)))
        self.why = why


class NotDeployedError(NotReadError):
    """No deploy has written the parameter."""


def read_hand_off(platform: DeployedPlatform) -> HandOff:
    """Return the document that the platform's deploy wrote, from SSM and S3 in the platform's Region.

    Reads the document of an earlier release, too, which is in the parameter itself.

    Raises NotReadError if AWS cannot be asked, NotDeployedError if nothing was deployed, and another UsageError if a
    newer deploy wrote what this version does not understand.
    """
    name, text = _hand_off_parameter(platform)
    what = _unreadable(platform, "the hand-off", name)
    stated = _stated(text)
    version = stated.get("schema_version")
    if version not in (SCHEMA_VERSION, POINTER_VERSION):
        deployer = _deployer(stated)
        who, fix = "a deploy of another version", SAME_VERSION
        if deployer:
            who, fix = f"Trainway {deployer.version}", f"launch with Trainway {deployer.version} or newer"
        why = f"its schema version is {version}, and this version of Trainway reads {SCHEMA_VERSION} and "
        raise usage_error(what, why=f"{why}{POINTER_VERSION}; {who} wrote it", fix=fix)
    if version == SCHEMA_VERSION:
        return _parsed(text, HandOff, what)
    pointer = _parsed(text, Pointer, what)
    try:
        document = fill(_object(platform, pointer), pointer.values)
    except ValueError as error:
        raise usage_error(what, why=str(error), fix="`make deploy` writes it again") from None
    return _parsed(document, HandOff, what).model_copy(update={"trainway": pointer.trainway})


def read_deployer(platform: DeployedPlatform) -> Deployer | None:
    """Return what deployed the platform, also of a hand-off whose schema is newer; None for what was before 0.1.0.

    Raises NotDeployedError if nothing was deployed, and NotReadError if AWS cannot be asked.
    """
    return _deployer(_stated(_hand_off_parameter(platform)[1]))


def read_deployed_file(platform: DeployedPlatform) -> dict[str, Any]:
    """Return the keys and values of the platform file of the last deploy.

    Raises UsageError if AWS cannot be asked, or the account does not have the file: one above 8 KB is not kept.
    """
    name = deployed_file_name(platform.name)
    absent = "no deploy has kept its platform file, which is so if the file is above 8 KB"
    text = _parameter(platform, "the platform file of the last deploy", name, absent=absent)
    return _parsed(text, DeployedFile, _unreadable(platform, "the platform file", name)).platform


def read_image(platform: DeployedPlatform, hand_off: HandOff, image: str = DEFAULT_IMAGE) -> str:
    """Return an image of the platform as it was built last, or as somebody chose it instead, by its digest.

    Prints a warning to standard error if the hand-off names another one: its build failed, or still runs. Raises
    UsageError as read_hand_off does, if the platform has no image of this name, and if it was never built.
    """
    if (wanted := hand_off.image_uris.get(image)) is None:
        fix = f"use one of {', '.join(hand_off.image_uris)}, or describe it below `images` and deploy"
        why = f"{hand_off.platform} was deployed without an image of this name"
        raise usage_error(f"there is no image {image}", why=why, fix=fix)
    name = image_parameter_name(platform.name, image)
    if image == DEFAULT_IMAGE:
        name = hand_off.image_parameter or name
    built = _read(platform, "the image", name, BuiltImage, absent="its stack was not deployed, or its build failed")
    if (chosen := _chosen_image(platform, image)) and chosen.instead_of == built.pinned:
        return chosen.pinned
    if built.uri != wanted:
        print(
            f"warning: the training image {wanted} of the last deploy is not built. The run uses the image"
            f" that was built last, {built.uri}. If the build failed, the events of the stack"
            f" {image_stack_name(platform.name, image)} show why: fix the cause and run `make deploy`. If the build"
            " still runs, launch again when it is done.",
            file=sys.stderr,
        )
    return built.pinned


def _chosen_image(platform: DeployedPlatform, image: str) -> ChosenImage | None:
    """Return the image that a person chose instead of the latest one, or None.

    The roles of a platform that an earlier release deployed may not read the choice, and have none.
    """
    import boto3
    from botocore.exceptions import ClientError

    name = chosen_image_parameter_name(platform.name, image)
    try:
        answer = boto3.client("ssm", region_name=platform.region).get_parameter(Name=name)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("ParameterNotFound", "AccessDeniedException"):
            return None
        raise
    return _parsed(answer["Parameter"]["Value"], ChosenImage, _unreadable(platform, "the chosen image", name))


def _read(platform: DeployedPlatform, thing: str, name: str, model: type[Model], *, absent: str) -> Model:
    return _parsed(_parameter(platform, thing, name, absent=absent), model, _unreadable(platform, thing, name))


def _parameter(platform: DeployedPlatform, thing: str, name: str, *, absent: str) -> str:
    """Return the value of an SSM parameter; `absent` says why there is none."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = _unreadable(platform, thing, name)
    try:
        answer = boto3.client("ssm", region_name=platform.region).get_parameter(Name=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            raise NotDeployedError(what, why=absent, fix="`make deploy` deploys it") from None
        why = error.response["Error"]["Message"]
        raise NotReadError(what, why=why, fix=f"you need ssm:GetParameter on {name}") from None
    except BotoCoreError as error:
        raise NotReadError(what, why=str(error), fix=CREDENTIALS) from None
    return str(answer["Parameter"]["Value"])


def _object(platform: DeployedPlatform, pointer: Pointer) -> str:
    """Return the text of the S3 object that the pointer names."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    location = f"s3://{pointer.bucket}/{pointer.key}"
    what = _unreadable(platform, "the hand-off's document", location)
    try:
        answer = boto3.client("s3", region_name=platform.region).get_object(Bucket=pointer.bucket, Key=pointer.key)
        return str(answer["Body"].read().decode("utf-8"))
    except ClientError as error:
        why, code = error.response["Error"]["Message"], error.response["Error"]["Code"]
        if code in ("NoSuchBucket", "NoSuchKey"):
            raise usage_error(what, why=why, fix="`make deploy` writes it again") from None
        fix = f"you need s3:GetObject on {location}, and kms:Decrypt if the bucket has a key of its own"
        raise NotReadError(what, why=why, fix=fix) from None
    except BotoCoreError as error:
        raise NotReadError(what, why=str(error), fix=CREDENTIALS) from None


def _hand_off_parameter(platform: DeployedPlatform) -> tuple[str, str]:
    """Return the name of the hand-off's parameter, and its value."""
    name = parameter_name(platform.name)
    absent = f"no platform of the name {platform.name} is deployed there"
    return name, _parameter(platform, "the hand-off", name, absent=absent)


def _stated(text: str) -> dict[str, Any]:
    """Return the keys of a document of any schema, or none if it is no document."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _deployer(stated: dict[str, Any]) -> Deployer | None:
    try:
        return Deployer.model_validate(stated.get("trainway"))
    except ValidationError:
        return None


def _parsed(text: str, model: type[Model], what: str) -> Model:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        why = f"{error.errors(include_url=False)[0]['msg']}; a deploy of another version wrote it"
        raise usage_error(what, why=why, fix=SAME_VERSION) from None


def _unreadable(platform: DeployedPlatform, thing: str, name: str) -> str:
    return f"{thing} {name} in {platform.region} cannot be read"
