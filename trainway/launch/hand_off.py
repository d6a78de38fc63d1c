"""Reading the hand-off of a deployed platform."""

from __future__ import annotations

from pydantic import ValidationError

from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff, parameter_name
from trainway.spec.platform import Platform


def read_hand_off(platform: Platform) -> HandOff:
    """The document that the platform's deploy wrote, from SSM in the platform's Region.

    Raises UsageError when AWS cannot be asked, nothing was deployed, or a newer deploy wrote what this version does
    not understand.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    name = parameter_name(platform.name)
    what = f"the hand-off {name} in {platform.region} cannot be read"
    try:
        answer = boto3.client("ssm", region_name=platform.region).get_parameter(Name=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            why = f"no platform of the name {platform.name} is deployed there"
            raise usage_error(what, why=why, fix="`make deploy` deploys it") from None
        why = error.response["Error"]["Message"]
        raise usage_error(what, why=why, fix=f"you need ssm:GetParameter on {name}") from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(what, why=str(error), fix=fix) from None
    try:
        return HandOff.model_validate_json(answer["Parameter"]["Value"])
    except ValidationError as error:
        why = f"{error.errors(include_url=False)[0]['msg']}; a deploy of another version wrote it"
        raise usage_error(
            what, why=why, fix="deploy again with this version, or launch with the one that deployed"
        ) from None
