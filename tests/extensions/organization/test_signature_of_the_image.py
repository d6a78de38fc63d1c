"""What ECR says of the image's signature, as `trainway image status` shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tests.delivery.test_scan_of_the_image import BUILT, DIGEST, IMAGES
from trainway.delivery.images import signature_of

SIGNER = "arn:aws:signer:us-west-2:111122223333:/signing-profiles/AtlasImage"
SIGNED = replace(IMAGES, built=BUILT.model_copy(update={"signer": SIGNER}))


def told(*statuses: dict[str, str]) -> str | None:
    """Return what the answer of ECR is understood as. botocore checks the question and the answer."""
    session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-west-2")
    ecr = session.client("ecr")
    with Stubber(ecr) as stubber:
        asked = {"repositoryName": "atlas/training", "imageId": {"imageDigest": DIGEST}}
        stubber.add_response("describe_image_signing_status", {"signingStatuses": list(statuses)}, asked)
        return signature_of(lambda _: ecr, SIGNED)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"status": "COMPLETE"}, f"signed by {SIGNER}"),
        ({"status": "IN_PROGRESS"}, f"being signed by {SIGNER}"),
        ({"status": "FAILED", "failureReason": "the profile is canceled"}, "not signed: the profile is canceled"),
    ],
)
def test_the_state_of_the_signature_is_told(status: dict[str, str], words: str) -> None:
    other = {"signingProfileArn": f"{SIGNER}Other", "status": "COMPLETE"}
    assert told(other, {"signingProfileArn": SIGNER, **status}) == words


def test_a_signature_of_somebody_elses_is_none_of_the_platforms() -> None:
    assert "not signed by" in str(told({"signingProfileArn": f"{SIGNER}Other", "status": "COMPLETE"}))


def test_nothing_is_asked_about_an_image_that_is_not_to_be_signed() -> None:
    assert signature_of(lambda _: pytest.fail("ECR was asked"), IMAGES) is None
