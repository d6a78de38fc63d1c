"""Reading the hand-off of a deployed platform."""

from __future__ import annotations

import sys
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from trainway.spec.errors import usage_error
from trainway.spec.handoff import BuiltImage, HandOff, image_parameter_name, parameter_name
from trainway.spec.platform import Platform

Model = TypeVar("Model", bound=BaseModel)


def read_hand_off(platform: Platform) -> HandOff:
    """The document that the platform's deploy wrote, from SSM in the platform's Region.

    Raises UsageError when AWS cannot be asked, nothing was deployed, or a newer deploy wrote what this version does
    not understand.
    """
    absent = f"no platform of the name {platform.name} is deployed there"
    return _read(platform, "the hand-off", parameter_name(platform.name), HandOff, absent=absent)


def read_image(platform: Platform, hand_off: HandOff) -> str:
    """Return the training image that was built last, by its digest.

    Prints a warning to standard error if the hand-off names another image: its build failed, or still runs. Raises
    UsageError as read_hand_off does, and if no image was ever built.
    """
    name = hand_off.image_parameter or image_parameter_name(platform.name)
    built = _read(platform, "the image", name, BuiltImage, absent="its stack was not deployed, or its build failed")
    if built.uri != hand_off.image_uri:
        print(
            f"warning: the training image {hand_off.image_uri} of the last deploy is not built. The run uses the image"
            f" that was built last, {built.uri}. If the build failed, the events of the stack {platform.name}-image"
            " show why: fix the cause and run `make deploy`. If the build still runs, launch again when it is done.",
            file=sys.stderr,
        )
    return built.pinned


def _read(platform: Platform, thing: str, name: str, model: type[Model], *, absent: str) -> Model:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"{thing} {name} in {platform.region} cannot be read"
    try:
        answer = boto3.client("ssm", region_name=platform.region).get_parameter(Name=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            raise usage_error(what, why=absent, fix="`make deploy` deploys it") from None
        why = error.response["Error"]["Message"]
        raise usage_error(what, why=why, fix=f"you need ssm:GetParameter on {name}") from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(what, why=str(error), fix=fix) from None
    try:
        return model.model_validate_json(answer["Parameter"]["Value"])
    except ValidationError as error:
        why = f"{error.errors(include_url=False)[0]['msg']}; a deploy of another version wrote it"
        raise usage_error(
            what, why=why, fix="deploy again with this version, or launch with the one that deployed"
        ) from None
