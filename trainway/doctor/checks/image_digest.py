"""The images that jobs use."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.delivery.images import IMAGE
from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.handoff import BuiltImage, ChosenImage
from trainway.spec.handoff_names import chosen_image_parameter_name, image_parameter_name

ABSENT = ["ImageNotFoundException", "RepositoryNotFoundException"]


@check("ssm:GetParameter", "ecr:DescribeImages")
def image_digest(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each image of the platform was built, and ECR still has the digest that jobs use."""
    for name in inquiry.platform.image_names:
        built = _parameter(inquiry, image_parameter_name(inquiry.platform.name, name))
        if built is None:
            why, fix = "its stack was not deployed, or its build failed", "`trainway image log`, and `make deploy`"
            yield error(f"the image {name} was never built", why=why, fix=fix)
            continue
        pinned = BuiltImage.model_validate_json(built).pinned
        chosen_text = _parameter(inquiry, chosen_image_parameter_name(inquiry.platform.name, name))
        chosen = ChosenImage.model_validate_json(chosen_text) if chosen_text else None
        if chosen and chosen.instead_of == pinned:
            pinned = chosen.pinned
        where, _, digest = pinned.partition("@")
        found = IMAGE.match(where)
        if found is None:
            continue
        answer = inquiry.aws.ask(
            "ecr",
            "describe_images",
            registryId=found["registry"].partition(".")[0],
            repositoryName=found["name"],
            imageIds=[{"imageDigest": digest}],
            absent=ABSENT,
        )
        if answer is None:
            why = f"jobs pull {digest[:19]}… from {found['name']}"
            yield error(f"the image {name} is gone from ECR", why=why, fix="trainway image rebuild")


def _parameter(inquiry: Inquiry, name: str) -> str | None:
    answer = inquiry.aws.ask("ssm", "get_parameter", Name=name, absent=["ParameterNotFound"])
    return str(answer["Parameter"]["Value"]) if answer else None
