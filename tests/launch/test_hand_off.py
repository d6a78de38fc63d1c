"""The launcher reads what the deploy wrote, from a real SSM API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from trainway.emulator import Emulator, running
from trainway.launch.hand_off import read_hand_off, read_image
from trainway.spec.errors import UsageError
from trainway.spec.handoff import BuiltImage, HandOff, image_parameter_name, parameter_name
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

PLATFORM = Platform(
    name="atlas",
    region="us-west-2",
    zones=("usw2-az1", "usw2-az2"),
    node_groups=(NodeGroup(name="train", instance_type="p5.48xlarge", count=1),),
)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture(autouse=True)
def environment(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)


def write(text: str) -> None:
    ssm = boto3.client("ssm", region_name=PLATFORM.region)
    ssm.put_parameter(Name=parameter_name("atlas"), Type="String", Value=text, Overwrite=True)


def test_what_was_written_is_what_is_read(hand_off: HandOff) -> None:
    write(hand_off.model_dump_json())
    assert read_hand_off(PLATFORM) == hand_off


def test_a_newer_deploy_may_say_more(hand_off: HandOff) -> None:
    write(hand_off.model_dump_json().replace("{", '{"colour":"blue",', 1))
    assert read_hand_off(PLATFORM) == hand_off


def test_another_schema_is_refused(hand_off: HandOff) -> None:
    write(hand_off.model_dump_json().replace('"schema_version":1', '"schema_version":2'))
    with pytest.raises(UsageError, match="another version wrote it"):
        read_hand_off(PLATFORM)


def built(uri: str) -> None:
    image = BuiltImage(uri=uri, pinned="123456789012.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:0")
    ssm = boto3.client("ssm", region_name=PLATFORM.region)
    name = image_parameter_name("atlas")
    ssm.put_parameter(Name=name, Type="String", Value=image.model_dump_json(), Overwrite=True)


def test_the_image_is_known_by_its_digest(hand_off: HandOff) -> None:
    built(hand_off.image_uri)
    assert read_image(PLATFORM, hand_off).endswith("/atlas/training@sha256:0")


def test_the_image_that_was_built_last_is_used_with_a_warning(
    hand_off: HandOff, capsys: pytest.CaptureFixture[str]
) -> None:
    built("123456789012.dkr.ecr.us-west-2.amazonaws.com/atlas/training:another")
    assert read_image(PLATFORM, hand_off).endswith("/atlas/training@sha256:0")
    warning = capsys.readouterr().err
    assert hand_off.image_uri in warning and "training:another" in warning and "stack atlas-image" in warning


def test_an_image_that_was_not_built(hand_off: HandOff) -> None:
    absent = PLATFORM.model_copy(update={"name": "absent"})
    with pytest.raises(UsageError, match="its build failed"):
        read_image(absent, hand_off)


def test_a_platform_that_was_not_deployed() -> None:
    absent = PLATFORM.model_copy(update={"name": "absent"})
    with pytest.raises(UsageError, match="no platform of the name absent") as caught:
        read_hand_off(absent)
    assert "make deploy" in str(caught.value)


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with pytest.raises(UsageError, match="credentials"):
        read_hand_off(PLATFORM)
