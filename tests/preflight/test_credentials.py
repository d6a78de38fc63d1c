"""Credentials: none, refused ones, and those of another account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.people import with_people
from trainway.cli import app
from trainway.preflight.checks import CHECKS

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/atlas"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        yield emulator


@pytest.fixture
def file(tmp_path: Path) -> Path:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 1, "capacity": {"training_plan": PLAN}}
    platform = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "hyperpod-eks",
        "node_groups": [group],
    }
    written = tmp_path / "platform.yaml"
    written.write_text(yaml.safe_dump(with_people(platform)), encoding="utf-8")
    return written


def run(file: Path, environment: dict[str, str | None], *options: str) -> tuple[int, list[dict[str, Any]]]:
    ran = CliRunner().invoke(app, ["preflight", str(file), "--json", *options], env=environment)
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    return ran.exit_code, json.loads(ran.stdout)["findings"]


def only(name: str) -> list[str]:
    return [option for each in CHECKS if each.name != name for option in ("--skip", each.name)]


def test_a_region_that_is_not_enabled_is_told_from_wrong_credentials(file: Path, emulator: Emulator) -> None:
    environment: dict[str, str | None] = dict(emulator.environment())
    emulator.hold(regions_not_enabled=["us-west-2"])
    try:
        status, findings = run(file, environment)
    finally:
        emulator.hold(regions_not_enabled=[])
    assert status == 1
    assert "has not enabled the Region us-west-2" in findings[0]["why"]
    assert "aws account enable-region --region-name us-west-2" in findings[0]["fix"]
    assert {each["level"] for each in findings[1:]} == {"not checked"}


def test_without_credentials_nothing_passes_in_silence(file: Path) -> None:
    status, findings = run(file, {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None})
    assert status == 1
    first, *others = findings
    assert (first["check"], first["level"]) == ("credentials", "error")
    assert "no AWS credentials" in first["why"] and "aws sso login" in first["fix"]
    assert {each["check"] for each in others} == {each.name for each in CHECKS} - {"credentials"}
    assert {each["level"] for each in others} == {"not checked"}


def test_a_profile_that_is_not_there_is_told(file: Path) -> None:
    status, (first, *_) = run(file, {"AWS_PROFILE": "nobody"})
    assert status == 1
    assert "nobody" in first["why"]


def test_a_plan_of_another_account_is_found(file: Path, emulator: Emulator) -> None:
    status, (found,) = run(file, dict(emulator.environment()), *only("credentials"))
    assert status == 1
    assert "account 123456789012, and the file names one of 111122223333" in found["what"]
    assert found["key"] == "node_groups[0].capacity.training_plan"


def test_the_right_account_is_told_nothing(file: Path, emulator: Emulator) -> None:
    file.write_text(file.read_text().replace("111122223333:training", "123456789012:training"))
    assert run(file, dict(emulator.environment()), *only("credentials")) == (0, [])


def test_a_refused_call_that_tells_of_expired_credentials(file: Path, emulator: Emulator) -> None:
    emulator.hold(denied=["sts:GetCallerIdentity"])
    try:
        status, (first, *_) = run(file, dict(emulator.environment()))
    finally:
        emulator.hold(denied=[])
    assert status == 1 and "not authorized" in first["why"]


def test_a_check_that_does_not_exist_cannot_be_skipped(file: Path) -> None:
    ran = CliRunner().invoke(app, ["preflight", str(file), "--skip", "qoutas"])
    assert "there is no check qoutas" in str(ran.exception) and "quotas" in str(ran.exception)
