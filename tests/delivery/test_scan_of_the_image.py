"""What a scan of the image found, as ECR answers it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from trainway.delivery.images import PlatformImages, Scan, StoredImage, scan_as_text, scan_of
from trainway.spec.errors import UsageError
from trainway.spec.handoff import BuiltImage

REPOSITORY = "111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training"
DIGEST = "sha256:" + "0" * 64
BUILT = BuiltImage(uri=f"{REPOSITORY}:c0ffee", pinned=f"{REPOSITORY}@{DIGEST}")
STORED = StoredImage(DIGEST, ("c0ffee",), 1, datetime(2026, 11, 23, tzinfo=UTC))
IMAGES = PlatformImages(BUILT, BUILT.pinned, "built last", (STORED,))
ASKED = {"repositoryName": "atlas/training", "imageId": {"imageDigest": DIGEST}, "maxResults": 1}


def scanned(answer: dict[str, Any] | str) -> Scan | None:
    """Return what the answer of ECR, or its error, is understood as. botocore checks the question and the answer."""
    session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-west-2")
    ecr = session.client("ecr")
    with Stubber(ecr) as stubber:
        if isinstance(answer, str):
            stubber.add_client_error("describe_image_scan_findings", answer, expected_params=ASKED)
        else:
            stubber.add_response("describe_image_scan_findings", answer, ASKED)
        return scan_of(lambda _: ecr, IMAGES)


def answer(state: str, **counts: int) -> dict[str, Any]:
    return {"imageScanStatus": {"status": state}, "imageScanFindings": {"findingSeverityCounts": counts}}


def test_findings_are_shown_by_severity_the_worst_first() -> None:
    assert scan_as_text(scanned(answer("COMPLETE", LOW=7, CRITICAL=1, UNDEFINED=2, HIGH=0))) == (
        "scan: 1 critical, 7 low, 2 undefined"
    )


def test_inspectors_continuous_scan_is_understood() -> None:
    assert scan_as_text(scanned(answer("ACTIVE", HIGH=3))) == "scan: 3 high"


def test_no_findings_and_no_scan_are_two_things() -> None:
    assert scan_as_text(scanned(answer("COMPLETE"))) == "scan: no findings"
    assert scan_as_text(scanned("ScanNotFoundException")) == "ECR has not scanned it"
    assert scan_as_text(scanned(answer("UNSUPPORTED_IMAGE"))) == "scan: unsupported_image"


def test_what_ecr_refuses_is_told() -> None:
    with pytest.raises(UsageError, match="permission for DescribeImageScanFindings"):
        scanned("AccessDeniedException")
