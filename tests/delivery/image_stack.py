"""A deployed image stack of the emulator, whose build pushes an image of another digest each time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import boto3
import pytest

from emulator import Emulator, running
from tests.delivery.test_failed_pipelines import ACTION, deployable
from tests.emulator.conftest import Stack
from tests.launch.conftest import make_hand_off
from tests.synthesis import ROOT, Template, templates_of
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import image_parameter_name

PLATFORM = ROOT / "examples/eks-p5.yaml"
REPOSITORY = "atlas/training"
REGISTRY = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
# Stands for delivery/image.sh: pushes an image of another digest where the tag is not there, and reports the digest.
PUSH = """
import json, os, urllib.request, uuid
import boto3
ecr, name = boto3.client("ecr"), os.environ["IMAGE_REPOSITORY"].partition("/")[2]
again = os.environ["IMAGE_AGAIN"]
tag = os.environ["IMAGE_TAG"] + ("" if again == "no" else "-" + again)
print("building", tag)
tags = {t: i["imageDigest"] for i in ecr.describe_images(repositoryName=name)["imageDetails"] for t in i["imageTags"]}
if tag not in tags:
    layer = {"digest": "sha256:" + uuid.uuid4().hex * 2, "size": 1}
    manifest = {"schemaVersion": 2, "mediaType": os.environ["MEDIA_TYPE"], "config": layer, "layers": [layer]}
    put = ecr.put_image(repositoryName=name, imageManifest=json.dumps(manifest), imageTag=tag)
    tags[tag] = put["image"]["imageId"]["imageDigest"]
body = json.dumps({"Status": "SUCCESS", "Reason": "", "UniqueId": "image", "Data": tags[tag]}).encode()
urllib.request.urlopen(urllib.request.Request(os.environ["WAIT_HANDLE_URL"], data=body, method="PUT"))
"""
MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
BUILT = {"command": [sys.executable, "-c", PUSH], "environment": {"MEDIA_TYPE": MEDIA_TYPE}}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """An emulator whose stacks the tests of a file share."""
    with running() as started:
        yield started


@pytest.fixture
def hand_off() -> HandOff:
    """The hand-off of the platform."""
    return make_hand_off()


@pytest.fixture
def stack(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A deployed image stack whose repository has the image."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    ecr = boto3.client("ecr")
    ecr.create_repository(repositoryName=REPOSITORY)
    emulator.set_builds({ACTION: [BUILT]})
    template: Template = deployable(templates_of(PLATFORM)["image"])
    made = Stack(emulator, boto3.client("cloudformation"))
    assert made.deploy(template) == "CREATE_COMPLETE"
    yield made
    made.delete()
    ecr.delete_repository(repositoryName=REPOSITORY, force=True)
    for parameter in boto3.client("ssm").describe_parameters()["Parameters"]:
        boto3.client("ssm").delete_parameter(Name=parameter["Name"])


def parameter(name: str) -> dict[str, str]:
    value: dict[str, str] = json.loads(boto3.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    return value


def lose() -> str:
    """Delete the image that the deploy built; return it by its digest."""
    pinned = parameter(image_parameter_name("atlas"))["pinned"]
    digest = pinned.rpartition("@")[2]
    boto3.client("ecr").batch_delete_image(repositoryName=REPOSITORY, imageIds=[{"imageDigest": digest}])
    return pinned
