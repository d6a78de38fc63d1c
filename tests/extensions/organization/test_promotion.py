"""`trainway image promote`: an image of another platform is copied by its digest, and jobs use it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
import pytest

from tests.delivery.image_stack import (
    MEDIA_TYPE,
    PLATFORM,
    REGISTRY,
    REPOSITORY,
    emulator,
    hand_off,
    lose,
    parameter,
    stack,
)
from trainway.commands import images as command
from trainway.extensions.organization.promotion import image_in_use
from trainway.launch.platform.hand_off import read_image
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import image_parameter_name
from trainway.spec.image.image_build import variant_of
from trainway.spec.loader import load_platform

# Fixtures.
__all__ = ["emulator", "hand_off", "stack"]


COPY = """#!{python}
import json, os, sys
import boto3
words = sys.argv[1:]
with open({calls!r}, "a") as calls:
    calls.write(" ".join(words) + "\\n")
if words[0] == "login":
    sys.exit(0 if sys.stdin.read() else 1)
target, source = words[-2:]
ecr, (name, tag) = boto3.client("ecr"), target.split("/", 1)[1].split(":")
other, digest = source.split("/", 1)[1].split("@")
(image,) = ecr.batch_get_image(repositoryName=other, imageIds=[{{"imageDigest": digest}}])["images"]
ecr.put_image(repositoryName=name, imageManifest=image["imageManifest"], imageTag=tag)
"""


@pytest.mark.usefixtures("stack")
def test_an_image_of_another_platform_is_copied_by_its_digest_and_used(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="it is not an image in ECR by its digest"):
        command.promote(f"{REGISTRY}/dev/training:latest", PLATFORM)
    ecr = boto3.client("ecr")
    ecr.create_repository(repositoryName="dev/training")
    layer = {"digest": f"sha256:{64 * 'b'}", "size": 1}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": layer, "layers": [layer]})
    put = ecr.put_image(repositoryName="dev/training", imageManifest=manifest, imageTag="one")
    source = f"{REGISTRY}/dev/training@{put['image']['imageId']['imageDigest']}"

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="this machine has no docker"):
        command.promote(source, PLATFORM)
    docker, calls = tmp_path / "docker", tmp_path / "calls"
    docker.write_text(COPY.format(python=sys.executable, calls=str(calls)), encoding="utf-8")
    docker.chmod(0o755)
    command.promote(source, PLATFORM)
    used = read_image(load_platform(PLATFORM), hand_off)
    assert used == f"{REGISTRY}/{REPOSITORY}@{source.rpartition('@')[2]}"
    assert "imagetools create --prefer-index=false" in calls.read_text(encoding="utf-8")
    # A second time nothing is copied.
    calls.unlink()
    command.promote(source, PLATFORM)
    assert not calls.exists()
    # Back to what the deploy built, and again to the other one.
    built = parameter(image_parameter_name("atlas"))["pinned"]
    command.restore(PLATFORM)
    assert read_image(load_platform(PLATFORM), hand_off) == built
    command.promote(source, PLATFORM)
    lose()
    with pytest.raises(UsageError, match="why: it is gone"):
        command.restore(PLATFORM)
    assert read_image(load_platform(PLATFORM), hand_off) == used
    ecr.delete_repository(repositoryName="dev/training", force=True)


@pytest.mark.usefixtures("stack")
def test_the_image_that_another_platform_uses_is_promoted_by_its_file(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PLATFORM.read_text(encoding="utf-8")
    other = tmp_path / "dev.yaml"
    other.write_text(text.replace("name: atlas", "name: dev", 1), encoding="utf-8")
    with pytest.raises(UsageError, match="either an image or a platform to copy from is required, and not both"):
        command.promote(None, PLATFORM)
    with pytest.raises(UsageError, match="dev has no training image"):
        command.promote(None, PLATFORM, other)
    ecr, ssm = boto3.client("ecr"), boto3.client("ssm")
    ecr.create_repository(repositoryName="dev/training")
    layer = {"digest": f"sha256:{64 * 'c'}", "size": 1}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": layer, "layers": [layer]})
    put = ecr.put_image(repositoryName="dev/training", imageManifest=manifest, imageTag="one")
    digest = put["image"]["imageId"]["imageDigest"]
    uri = f"{REGISTRY}/dev/training"
    built = {"uri": f"{uri}:one", "pinned": f"{uri}@{digest}"}
    ssm.put_parameter(Name=image_parameter_name("dev"), Type="String", Value=json.dumps(built))
    docker, calls = tmp_path / "docker", tmp_path / "calls"
    docker.write_text(COPY.format(python=sys.executable, calls=str(calls)), encoding="utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command.promote(None, PLATFORM, other)
    assert read_image(load_platform(PLATFORM), hand_off) == f"{REGISTRY}/{REPOSITORY}@{digest}"
    command.status(PLATFORM)
    assert f"(promoted from dev: {uri}@{digest})" in capsys.readouterr().out

    with pytest.raises(UsageError, match="profile"):
        command.promote(None, PLATFORM, other, "nobody")
    ecr.batch_delete_image(repositoryName="dev/training", imageIds=[{"imageDigest": digest}])
    with pytest.raises(UsageError, match=f"{digest} is gone"):
        command.promote(None, PLATFORM, other)
    ecr.delete_repository(repositoryName="dev/training", force=True)


def test_an_image_for_other_accelerators_is_not_promoted() -> None:
    catalogue = load_catalogue()
    gpus = load_platform(PLATFORM)
    group = gpus.node_groups[0].model_copy(update={"instance_type": "m7i.8xlarge"})
    processors = gpus.model_copy(update={"name": "dev", "node_groups": (group,)})
    assert variant_of(processors, catalogue) == "cpu"
    with pytest.raises(UsageError, match="it is for cpu, and jobs of atlas need an image for cuda"):
        image_in_use(lambda _: None, processors, gpus)
