"""How old the packages of the image in use are, as far as the platform knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from trainway.delivery.images import PlatformImages, StoredImage, age_of_packages, bill_of_materials
from trainway.spec.errors import UsageError
from trainway.spec.handoff import BuiltImage

REPOSITORY = "111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training"
BUILT = BuiltImage(uri=f"{REPOSITORY}:c0ffee", pinned=f"{REPOSITORY}@sha256:0", packages=date(2026, 11, 21))


def stored(digest: str, tag: str) -> StoredImage:
    return StoredImage(digest, (tag,), 1, datetime(2026, 11, 23, tzinfo=UTC))


IMAGES = PlatformImages(
    BUILT, BUILT.pinned, "built last", (stored("sha256:0", "c0ffee"), stored("sha256:1", "promoted-1"))
)


def test_the_age_is_counted_from_the_day_of_the_snapshot() -> None:
    assert age_of_packages(IMAGES, date(2026, 11, 22)).endswith("those of 2026-11-21, 1 day old")
    assert age_of_packages(IMAGES, date(2027, 1, 20)).endswith("those of 2026-11-21, 60 days old")


def test_a_second_image_of_the_same_content_has_packages_of_the_same_day() -> None:
    again = replace(IMAGES, pinned=f"{REPOSITORY}@sha256:2", stored=(stored("sha256:2", "c0ffee-20261123"),))
    assert again.packages == BUILT.packages


def test_the_day_of_a_promoted_image_is_not_that_of_the_platforms_own() -> None:
    promoted = replace(IMAGES, pinned=f"{REPOSITORY}@sha256:1")
    assert age_of_packages(promoted) == "its Ubuntu packages follow no known snapshot"


def test_an_image_of_a_deploy_that_knew_no_snapshot_has_no_day() -> None:
    before = BuiltImage.model_validate_json(f'{{"uri": "{BUILT.uri}", "pinned": "{BUILT.pinned}"}}')
    assert replace(IMAGES, built=before).packages is None


@pytest.mark.parametrize(
    ("bill", "why"), [(None, "kept none"), ("s3://bucket/a.spdx.json", "another platform built it")]
)
def test_an_image_whose_packages_are_not_listed_here_is_refused(bill: str | None, why: str) -> None:
    promoted = replace(IMAGES, built=BUILT.model_copy(update={"bill": bill}), pinned=f"{REPOSITORY}@sha256:1")
    with pytest.raises(UsageError, match=why):
        bill_of_materials(lambda service: pytest.fail(f"{service} was asked"), promoted)
