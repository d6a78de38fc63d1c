"""The launcher reads what the deploy wrote, from a real SSM API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from pydantic import ValidationError

from emulator import Emulator, running
from tests.launch.conftest import load_job
from trainway import __version__
from trainway.launch.job_file.sweep import Point
from trainway.launch.platform.deployed_version import require_upgradable
from trainway.launch.platform.hand_off import read_deployer, read_hand_off, read_image
from trainway.launch.starting.prepare import Launch, allocated_requests
from trainway.spec.errors import UsageError
from trainway.spec.handoff import BuiltImage, Deployer, HandOff, Pointer
from trainway.spec.handoff_names import DEFAULT_IMAGE, image_parameter_name, parameter_name
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


@pytest.mark.parametrize("version", [0, 3, "x", None])
def test_another_schema_is_refused(hand_off: HandOff, version: object) -> None:
    write(json.dumps({**hand_off.model_dump(mode="json"), "schema_version": version}))
    with pytest.raises(UsageError, match=rf"its schema version is {version}, and [\s\S]*another version wrote it"):
        read_hand_off(PLATFORM)


def test_what_is_no_document_is_refused() -> None:
    write("s3://bucket/key")
    with pytest.raises(UsageError, match="another version wrote it"):
        read_hand_off(PLATFORM)


BUCKET, KEY = "assets-of-the-deploy", "a.json"


def write_pointer(document: str, values: tuple[str, ...] = (), **pointer: object) -> None:
    s3 = boto3.client("s3", region_name=PLATFORM.region)
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=document.encode())
    whole = {**Pointer(bucket=BUCKET, key=KEY, values=values).model_dump(mode="json"), **pointer}
    write(json.dumps(whole))


def test_the_document_is_read_from_s3_with_the_values_of_the_parameter(hand_off: HandOff) -> None:
    document = hand_off.model_dump_json().replace(hand_off.bucket, "${0}").replace(hand_off.cluster.arn, "${1}")
    assert "${1}" in document
    write_pointer(document, (hand_off.bucket, hand_off.cluster.arn))
    assert read_hand_off(PLATFORM) == hand_off


def test_a_document_of_another_schema_is_refused(hand_off: HandOff) -> None:
    write_pointer(hand_off.model_dump_json().replace('"schema_version":1', '"schema_version":9'))
    with pytest.raises(UsageError, match="another version wrote it"):
        read_hand_off(PLATFORM)


def test_a_value_that_the_parameter_lacks_is_said(hand_off: HandOff) -> None:
    write_pointer(hand_off.model_dump_json().replace(hand_off.bucket, "${1}"), ("one",))
    with pytest.raises(UsageError, match=r"needs value 1, and the parameter has 1[\s\S]*make deploy"):
        read_hand_off(PLATFORM)


@pytest.mark.parametrize("lost", [{"bucket": "no-such-bucket-here"}, {"key": "b.json"}], ids=["bucket", "object"])
def test_a_document_that_is_gone_is_said(hand_off: HandOff, lost: dict[str, Any]) -> None:
    write_pointer(hand_off.model_dump_json(), **lost)
    place = f"s3://{lost.get('bucket', BUCKET)}/{lost.get('key', KEY)}"
    with pytest.raises(UsageError, match=rf"document {place} in us-west-2[\s\S]*make deploy"):
        read_hand_off(PLATFORM)


def test_a_launcher_of_the_release_before_says_that_another_version_wrote_it() -> None:
    """That launcher reads the parameter as the document, whose schema version it compares with its own."""
    pointer = Pointer(bucket=BUCKET, key=KEY, values=())
    with pytest.raises(ValidationError) as caught:
        HandOff.model_validate_json(pointer.model_dump_json())
    assert caught.value.errors()[0]["loc"] == ("schema_version",)


BEFORE = Path(__file__).parent / "hand_off_before_0.1.0"


def test_a_hand_off_from_before_versions_were_recorded_is_read_and_not_upgraded() -> None:
    """The two files are as a deploy wrote them before 0.1.0."""
    pointer = json.loads((BEFORE / "parameter.json").read_text(encoding="utf-8"))
    write_pointer((BEFORE / "document.json").read_text(encoding="utf-8"), pointer["values"])
    read = read_hand_off(PLATFORM)
    assert read.trainway is None and read_deployer(PLATFORM) is None
    assert read.bucket == "first-data-123456789012" and read.node_groups[0].name == "train"
    with pytest.raises(UsageError, match=r"deployed before 0\.1\.0[\s\S]*make destroy"):
        require_upgradable(PLATFORM)


def test_the_hand_off_names_the_version_that_deployed(hand_off: HandOff) -> None:
    write_pointer(hand_off.model_dump_json(), trainway={"version": __version__, "colour": "blue"})
    assert read_hand_off(PLATFORM).trainway == Deployer(version=__version__)
    require_upgradable(PLATFORM)


def test_what_a_newer_version_deployed_is_launched_on_and_not_deployed_over(hand_off: HandOff) -> None:
    write_pointer(hand_off.model_dump_json(), trainway={"version": "99.0.0"})
    assert read_hand_off(PLATFORM).trainway == Deployer(version="99.0.0")
    with pytest.raises(UsageError, match=r"cannot deploy the platform atlas[\s\S]*install Trainway 99\.0\.0 or newer"):
        require_upgradable(PLATFORM)


def test_a_schema_that_only_a_newer_version_knows_is_refused_with_that_version() -> None:
    write(json.dumps({"schema_version": 3, "trainway": {"version": "99.0.0"}}))
    with pytest.raises(UsageError, match=r"Trainway 99\.0\.0 wrote it[\s\S]*launch with Trainway 99\.0\.0 or newer"):
        read_hand_off(PLATFORM)
    with pytest.raises(UsageError, match=r"install Trainway 99\.0\.0 or newer"):
        require_upgradable(PLATFORM)


def test_a_platform_that_was_never_deployed_may_be() -> None:
    require_upgradable(PLATFORM.model_copy(update={"name": "absent"}))


def built(uri: str, name: str = DEFAULT_IMAGE) -> None:
    image = BuiltImage(uri=uri, pinned=f"{uri.rpartition(':')[0]}@sha256:0")
    ssm = boto3.client("ssm", region_name=PLATFORM.region)
    name = image_parameter_name("atlas", name)
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


@pytest.mark.parametrize(
    ("asked", "of_the_job", "of_the_group", "used"),
    [
        (None, None, None, "training"),
        (None, None, "neuron", "training-neuron"),
        (None, "develop", "neuron", "training-develop"),
        ("image", "develop", "neuron", "training"),
    ],
)
def test_a_launch_runs_in_the_image_that_it_names_or_else_its_job_or_its_nodes(
    hand_off: HandOff, tmp_path: Path, asked: str | None, of_the_job: str | None, of_the_group: str | None, used: str
) -> None:
    registry = hand_off.image_uri.partition("/")[0]
    images = {name: f"{registry}/atlas/training-{name}:0123" for name in ("develop", "neuron")}
    [group] = hand_off.node_groups
    groups = (group.model_copy(update={"image": of_the_group}),)
    write(hand_off.model_copy(update={"images": images, "node_groups": groups}).model_dump_json())
    for name, uri in {DEFAULT_IMAGE: hand_off.image_uri, **images}.items():
        built(uri, name)
    batch = {"global": 16, "micro": 2}
    point = Point(load_job(tmp_path, batch=batch, **({"image": of_the_job} if of_the_job else {})), {})
    [request] = allocated_requests(Launch([point], tmp_path / "platform.yaml", image=asked, loaded=PLATFORM))
    assert request.image == f"{registry}/atlas/{used}@sha256:0"


def test_an_image_that_the_platform_does_not_have(hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match="there is no image develop") as caught:
        read_image(PLATFORM, hand_off, "develop")
    assert "use one of image, or describe it below `images` and deploy" in str(caught.value)


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
