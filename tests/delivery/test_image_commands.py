"""`trainway image` on a deployed image stack: an image that is gone is built again, and jobs use it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from delivery.provenance import PREDICATE, statement
from tests.delivery.faults import PROVISIONING
from tests.delivery.image_stack import BUILT, PLATFORM, REGISTRY, REPOSITORY, emulator, hand_off, lose, parameter, stack
from tests.delivery.test_failed_pipelines import ACTION
from tests.emulator.conftest import Stack
from trainway.commands import images as command
from trainway.launch.platform.hand_off import read_image
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import chosen_image_parameter_name, image_parameter_name
from trainway.spec.loader import load_platform

# Fixtures.
__all__ = ["emulator", "hand_off", "stack"]


@pytest.mark.exhaustive
def test_an_image_that_is_gone_is_noticed_and_built_again_without_a_change_of_what_the_stack_has(
    stack: Stack, hand_off: HandOff, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command.rebuild(PLATFORM)
    assert "exists" in capsys.readouterr().out
    lost = lose()
    command.status(PLATFORM)
    assert "It is gone." in capsys.readouterr().out
    # With AWS_ENDPOINT_URL, `trainway diff` takes AWS for one that builds no images.
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    for service in ("STS", "SSM", "ECR"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", endpoint)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert command.images_that_are_gone(PLATFORM) == [lost]
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)

    stack.emulator.set_builds({ACTION: [BUILT]})
    command.rebuild(PLATFORM)
    assert parameter(image_parameter_name("atlas"))["pinned"] == lost, "only CloudFormation writes its parameter"
    chosen = parameter(chosen_image_parameter_name("atlas"))
    assert chosen["instead_of"] == lost != chosen["pinned"]
    assert read_image(load_platform(PLATFORM), hand_off) == chosen["pinned"]
    capsys.readouterr()
    command.status(PLATFORM)
    shown = capsys.readouterr().out
    assert f"jobs use {chosen['pinned']} (built again)" in shown and "gone" not in shown
    assert "its Ubuntu packages are those of 2026-11-21, " in shown
    assert "the last run of atlas-image: Succeeded" in shown

    boto3.client("ssm").put_parameter(
        Name=image_parameter_name("atlas"),
        Type="String",
        Overwrite=True,
        Value=json.dumps({"uri": hand_off.image_uri, "pinned": f"{REGISTRY}/{REPOSITORY}@sha256:next"}),
    )
    assert read_image(load_platform(PLATFORM), hand_off).endswith("@sha256:next"), "the next build ends the choice"


def test_a_second_image_of_the_same_content_has_a_tag_of_its_own(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    first = parameter(image_parameter_name("atlas"))
    stack.emulator.set_builds({ACTION: [BUILT]})
    command.rebuild(PLATFORM, again=True)
    stored = boto3.client("ecr").describe_images(repositoryName=REPOSITORY)["imageDetails"]
    tags = {tag: f"{REGISTRY}/{REPOSITORY}@{each['imageDigest']}" for each in stored for tag in each["imageTags"]}
    tag = first["uri"].rpartition(":")[2]
    (again,) = tags.keys() - {tag}
    assert again.startswith(f"{tag}-") and tags[tag] == first["pinned"]
    assert parameter(chosen_image_parameter_name("atlas"))["pinned"] == tags[again]
    # A run of what was deployed goes back to the image of the deploy.
    command.build(PLATFORM)
    assert first["pinned"] in capsys.readouterr().out
    assert boto3.client("ssm").get_parameters(Names=[chosen_image_parameter_name("atlas")])["Parameters"] == []


def test_a_build_that_fails_ends_with_its_phase_and_the_log_is_that_of_the_last_build(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    command.log(PLATFORM)
    assert capsys.readouterr().out.startswith("building ")
    lose()
    stack.emulator.set_builds({ACTION: [PROVISIONING, PROVISIONING]})
    with pytest.raises(UsageError, match="Step2/Image: PROVISIONING: CLIENT_ERROR Unable to pull the build image"):
        command.rebuild(PLATFORM)
    command.status(PLATFORM)
    shown = capsys.readouterr().out
    assert "the last run of atlas-image: Failed\n  Step2/Image: PROVISIONING" in shown
    with pytest.raises(UsageError, match="its last build ended before its script ran"):
        command.log(PLATFORM)


def test_without_credentials_the_command_says_how_to_sign_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UsageError, match="this shell has no AWS credentials"):
        command.status(PLATFORM)


@pytest.mark.usefixtures("stack")
def test_the_packages_of_the_image_are_printed_as_the_base_stage_kept_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bucket, _, key = parameter(image_parameter_name("atlas"))["bill"].removeprefix("s3://").partition("/")
    s3 = boto3.client("s3")
    with pytest.raises(UsageError, match="AWS refused a call"):
        command.sbom(PLATFORM)
    if bucket not in [each["Name"] for each in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket=bucket, Key=key, Body=b'{"spdxVersion": "SPDX-2.3"}\n')
    command.sbom(PLATFORM)
    assert json.loads(capsys.readouterr().out) == {"spdxVersion": "SPDX-2.3"}


@pytest.mark.usefixtures("stack")
def test_the_provenance_of_the_image_is_printed_with_that_of_its_base(capsys: pytest.CaptureFixture[str]) -> None:
    built = parameter(image_parameter_name("atlas"))
    bucket, _, key = built["bill"].removeprefix("s3://").partition("/")
    s3 = boto3.client("s3")
    if bucket not in [each["Name"] for each in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    with pytest.raises(UsageError, match=r"(?s)there is no provenance of .*an earlier version of Trainway"):
        command.provenance(PLATFORM)

    def keep(name: str, digest: str, words: list[str], buildkit: dict[str, Any] | None) -> None:
        told = statement(
            repository=name,
            tag="c0ffee",
            digest=digest,
            started="2026-11-23T10:00:00Z",
            finished="2026-11-23T10:03:00Z",
            files=[{"name": "Dockerfile", "digest": {"sha256": 64 * "d"}}],
            words=words,
            buildkit=buildkit,
            environment={"CODEBUILD_BUILD_ARN": "arn:aws:codebuild:us-west-2:123456789012:build/atlas:1"},
        )
        stored = f"{key.rpartition('/')[0]}/{digest.removeprefix('sha256:')}.provenance.json"
        s3.put_object(Bucket=bucket, Key=stored, Body=json.dumps(told).encode())

    base, ubuntu = f"{REGISTRY}/atlas/mirror/training-base", f"docker.io/ubuntu:24.04@sha256:{64 * 'b'}"
    context = f"libraries=docker-image://{base}@sha256:{64 * 'a'}"
    keep(f"{REGISTRY}/{REPOSITORY}", built["pinned"].rpartition("@")[2], ["--build-context", context], None)
    words = ["--build-arg", f"BASE_IMAGE={ubuntu}"]
    keep(base, 64 * "a", words, {"materials": [{"uri": "pkg:docker/ubuntu@24.04"}]})
    command.provenance(PLATFORM)
    image, below = capsys.readouterr().out.split("\n\n")
    assert image.startswith(built["pinned"]) and "build/atlas:1" in image and f"sha256:{64 * 'd'}" in image
    assert f"{base}@sha256:{64 * 'a'}" in image
    assert below.startswith(f"{base}@sha256:{64 * 'a'}\n")
    assert ubuntu in below and "pkg:docker/ubuntu@24.04" in below and "c0ffee" in below
    command.provenance(PLATFORM, as_json=True)
    assert [each["predicateType"] for each in json.loads(capsys.readouterr().out)] == 2 * [PREDICATE]


@pytest.mark.usefixtures("stack")
def test_the_status_shows_every_image_of_the_platform_also_one_that_is_not_deployed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"{REGISTRY}/jobs@sha256:{64 * '1'}"
    document = yaml.safe_load(PLATFORM.read_text(encoding="utf-8"))
    document["images"] = {"jobs": {"uri": uri}, "extra": {"packages": {"apt": ["libaio-dev"]}}}
    several = tmp_path / "platform.yaml"
    several.write_text(yaml.safe_dump(document), encoding="utf-8")
    value = json.dumps({"uri": uri, "pinned": uri})
    boto3.client("ssm").put_parameter(Name=image_parameter_name("atlas", "jobs"), Type="String", Value=value)
    command.status(several)
    shown = capsys.readouterr().out
    assert f"image image: jobs use {parameter(image_parameter_name('atlas'))['pinned']} (built last)\n" in shown
    assert f"\nimage jobs: jobs use {uri} (image.uri)\n" in shown
    assert "\nimage extra: not deployed. `make deploy` builds it.\n" in shown
    assert "the last run of atlas-image: Succeeded" in shown
    command.status(several, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["jobs"]["used"], told["extra"], set(told)) == (uri, None, {"image", "jobs", "extra"})
    command.status(several, "jobs", as_json=True)
    assert json.loads(capsys.readouterr().out) == told["jobs"]
