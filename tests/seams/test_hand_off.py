"""The hand-off of every platform, read by the launcher from the parameter and the object that a deploy would write."""

from __future__ import annotations

import atexit
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from emulator import Emulator, running
from tests.representatives import representatives_and_every
from tests.seams.resolved import deployed_of
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.shapes import platforms
from tests.seams.stacks import NAME_OF_SHAPES, files_of
from tests.synthesis import EXAMPLES
from trainway.launch.platform.hand_off import read_hand_off
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

# Properties of the parameter, and texts of the objects by key.
Written = tuple[dict[str, Any], dict[str, str]]
EXAMPLE = "hyperpod-eks-shared"


def written(name: str) -> Written:
    """Return what the deploy of a platform would write, as copies."""
    parameters = deployed_of(name).of_type("AWS::SSM::Parameter").values()
    (parameter,) = (each for each in parameters if each["Name"].endswith("/hand-off"))
    return copy.deepcopy(parameter), dict(files_of(name))


@contextmanager
def environment(emulator: Emulator) -> Iterator[None]:
    """Let boto3 in this process call the emulator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        yield


def read(name: str, wrote: Written) -> HandOff:
    """Write the parameter and the object into the emulated AWS as a deploy does, and let the launcher read them."""
    platform, (parameter, files) = platforms()[name], wrote
    if name not in {file.stem for file in EXAMPLES}:
        platform = platform.model_copy(update={"name": NAME_OF_SHAPES})
    ssm = boto3.client("ssm", region_name=platform.region)
    s3 = boto3.client("s3", region_name=platform.region)
    ssm.put_parameter(**{key: value for key, value in parameter.items() if key != "Tags"}, Overwrite=True)
    bucket = f"cdk-hnb659fds-assets-111122223333-{platform.region}"
    if bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=bucket)
    for each in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=each["Key"])
    for key, text in files.items():
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode())
    return read_hand_off(platform)


@pytest.mark.parametrize("names", representatives_and_every(platforms()))
def test_the_launcher_reads_the_hand_off_of_every_platform(names: tuple[str, ...]) -> None:
    with running() as emulator, environment(emulator):
        for name in names:
            platform = platforms()[name]
            hand_off = read(name, written(name))
            assert hand_off.orchestrator == platform.orchestrator.value
            assert [each.name for each in hand_off.node_groups] == [each.name for each in platform.node_groups]
            assert hand_off.teams == tuple(team.name for team in platform.teams)
            # A launcher needs no platform file to know which jobs can start.
            assert all(each.most is not None for each in hand_off.node_groups)
            assert [each.name for each in hand_off.team_shares] == [team.name for team in platform.teams]
            # Every value that only a deploy knows is in its place.
            text = hand_off.model_dump_json()
            assert "${" not in text and "Token[" not in text
            assert hand_off.bucket and hand_off.cluster.arn.startswith("arn:aws:")
            assert (hand_off.file_system is None) is (platform.storage.lustre is None)
            if hand_off.file_system is None:
                continue
            assert hand_off.mounted.file_system_id.startswith("fs-")
            # A directory may mirror a bucket of the owner's.
            mirrored = {each.path: each.s3 for each in hand_off.mounted.associations}
            linked = platform.storage.of_jobs.mirror
            assert mirrored.get("/checkpoints") == (f"s3://{hand_off.bucket}/checkpoints" if linked else None)


@cache
def _emulator() -> Emulator:
    """Return an emulator for the planted errors, which ends with the process."""
    context = running()
    emulator = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return emulator


def reading(change: Callable[[Written], None] | None = None) -> Reading:
    """Return a reading of the example's hand-off after a change, as the problems that SSM or the launcher reports."""

    def problems(_: Path) -> list[str]:
        wrote = written(EXAMPLE)
        if change:
            change(wrote)
        with environment(_emulator()):
            try:
                read(EXAMPLE, wrote)
            except (ClientError, UsageError) as error:
                return [str(error)]
        return []

    return problems


def planted(error: str, change: Callable[[Written], None]) -> Planted:
    return Planted(error, sound=reading(), broken=reading(change))


def pointer(**changes: object) -> Callable[[Written], None]:
    """Return a change of keys of the parameter's document."""

    def change(wrote: Written) -> None:
        parameter, _ = wrote
        parameter["Value"] = json.dumps(json.loads(parameter["Value"]) | changes)

    return change


def document(change: Callable[[dict[str, Any]], None]) -> Callable[[Written], None]:
    """Return a change of the object's document."""

    def whole(wrote: Written) -> None:
        parameter, files = wrote
        key = json.loads(parameter["Value"])["key"]
        changed = json.loads(files[key])
        change(changed)
        files[key] = json.dumps(changed)

    return whole


def lose_the_object(wrote: Written) -> None:
    wrote[1].clear()


def two_tokens(changed: dict[str, Any]) -> None:
    changed["bucket"] = "${99}"


def another_schema(changed: dict[str, Any]) -> None:
    changed["schema_version"] = 9


def no_groups(changed: dict[str, Any]) -> None:
    del changed["node_groups"]


def standard_tier(wrote: Written) -> None:
    parameter, _ = wrote
    pointer(values=["x" * 5000])(wrote)
    parameter["Tier"] = "Standard"


def bad_name(wrote: Written) -> None:
    wrote[0]["Name"] = "/trainway//hand-off"


SEAMS = (
    Seam(
        artifact="the hand-off",
        rendered_by="stacks/clusters/hand_off.py",
        reader="the launcher, from a parameter and an object of the emulated AWS",
        instead="SSM runs only in AWS. The emulator refuses the names and sizes that SSM's documentation excludes.",
        planted=(
            planted("the parameter is of another schema version", pointer(schema_version=3)),
            planted("the parameter names no key", pointer(key=None)),
            planted("the document is of another schema version", document(another_schema)),
            planted("the document lacks the node groups", document(no_groups)),
            planted("the document refers to a value that the parameter lacks", document(two_tokens)),
            planted("the document is not in the bucket", lose_the_object),
            planted("the parameter is larger than SSM takes", pointer(values=["x" * 8192])),
            planted("the parameter is larger than its tier takes", standard_tier),
            planted("the parameter's name is none that SSM takes", bad_name),
        ),
    ),
)
