"""Every reader accepts what the project renders, and finds each error that is planted in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.representatives import with_representatives
from tests.seams.seam import Planted, all_seams, identity

EVERY_SEAM = [seam for seams in all_seams().values() for seam in seams]
PLANTED: dict[str, Planted] = {
    f"{seam.artifact}: {planted.error}": planted for seam in EVERY_SEAM for planted in seam.planted
}
# Seams in which only `make test-all` plants errors, and their reader, which is that of a seam that costs less.
READ_ELSEWHERE = {
    "Calls that schedules make": "botocore's model",
    "CloudWatch dashboards and alarms": "a JSON Schema of",
    "Delivery scripts: command lines": "botocore's model",
    "IAM policies of roles": "iam-policy-validator",
    "Karpenter's node pools": "definition",
    "Kubernetes' own objects": "Kubernetes",
    "RayJobs that a launch submits": "definition",
    "Roles for people": "iam-simulate",
    "Roles of the delivery stages and of their pipelines": "iam-simulate",
    "Scrape configuration of the AWS managed collector": "promtool",
    "admission policies of Run:ai's projects": "CEL library",
    "policies by which jobs read secrets": "iam-simulate",
}
DAILY = [seam for seam in EVERY_SEAM if not seam.exhaustive and seam.artifact not in READ_ELSEWHERE]
# The first error of a seam shows that its reader reads the artifact.
FIRST = {f"{seam.artifact}: {seam.planted[0].error}" for seam in DAILY if seam.planted}
# The errors of an artifact share one reading of the artifact without an error.
SOUND = list({identity(planted.sound): error for error, planted in reversed(PLANTED.items())}.values())


# In `make test` the test file of each seam reads its sound artifacts.
@pytest.mark.exhaustive
@pytest.mark.parametrize("error", SOUND)
def test_the_reader_accepts_the_artifact_without_the_error(error: str, tmp_path: Path) -> None:
    assert not list(PLANTED[error].sound(tmp_path))


@pytest.mark.parametrize("error", with_representatives(PLANTED, FIRST))
def test_the_reader_finds_the_planted_error(error: str, tmp_path: Path) -> None:
    assert list(PLANTED[error].broken(tmp_path)), f"nobody noticed that {error}"


@pytest.mark.parametrize(("artifact", "reader"), READ_ELSEWHERE.items())
def test_a_reader_finds_an_error_of_another_seam_in_make_test(artifact: str, reader: str) -> None:
    (left_out,) = [seam for seam in EVERY_SEAM if seam.artifact == artifact]
    assert reader in left_out.reader
    # The API models of botocore are named in two ways.
    words = {reader, "models of botocore"} if "botocore" in reader else {reader}
    assert [seam.artifact for seam in DAILY if any(word in seam.reader for word in words)]
