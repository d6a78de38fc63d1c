"""`image.refresh` is a day that has been, and the day of the packages that the image is built with."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from trainway.diff.look import look
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import build_arguments, packages_date
from trainway.spec.loader import load_platform, load_versions
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "eks-p5.yaml"
BASE = "example.org/mine:1@sha256:" + "0" * 64


def platform(**image: Any) -> Platform:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 1}
    return Platform.model_validate(
        {"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group], "image": image}
    )


def snapshot(**image: Any) -> str:
    return build_arguments(platform(**image), load_catalogue(), load_versions())["UBUNTU_SNAPSHOT"]


def test_the_snapshot_is_that_of_the_day() -> None:
    assert snapshot(refresh=date(2026, 12, 24)) == "https://snapshot.ubuntu.com/ubuntu/20261224T000000Z"
    assert snapshot(base=BASE, refresh=date(2026, 12, 24)) == snapshot(refresh=date(2026, 12, 24))


def test_the_default_is_the_day_beside_the_digest_of_the_base() -> None:
    assert packages_date(platform(), load_versions()) == load_versions().images[0].packages
    assert snapshot() == "https://snapshot.ubuntu.com/ubuntu/20261121T000000Z"


def test_a_base_of_yours_follows_no_snapshot_by_itself() -> None:
    assert snapshot(base=BASE) == ""
    assert packages_date(platform(base=BASE), load_versions()) is None


def test_a_day_in_the_future_is_refused_until_it_has_come(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(EXAMPLE.read_text(encoding="utf-8") + "image: {refresh: 2026-12-24}\n")
    assert load_platform(file, today=date(2026, 12, 24)).image.refresh == date(2026, 12, 24)
    with pytest.raises(SpecError) as caught:
        load_platform(file, today=date(2026, 12, 23))
    for part in ("image.refresh", "no snapshot of a day after today, 2026-12-23", "write 2026-12-23 or an earlier day"):
        assert part in str(caught.value)


def test_a_deploy_refuses_a_day_in_the_future_before_it_asks_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainway.diff.look.AwsAccount", lambda _: pytest.fail("AWS was asked"))
    file = tmp_path / "platform.yaml"
    later = datetime.now(UTC).date() + timedelta(days=2)
    file.write_text(EXAMPLE.read_text(encoding="utf-8") + f"images: {{develop: {{refresh: {later}}}}}\n")
    with pytest.raises(SpecError, match=r"images.develop.refresh = .*\n.*no snapshot of a day after today"):
        look(file)
