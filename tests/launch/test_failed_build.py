"""A failed image build stops no launch: the image that was built last is used, with a warning."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.emulator.conftest import Stack
from tests.stacks.changes import EKS, edited, synthesized
from tests.synthesis import Template
from trainway.launch.platform.hand_off import read_image
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load_platform

DIGEST = f"sha256:{64 * 'a'}"
# The parts of the image stack that report the build. The emulator has no CodeBuild, so the test signals in its place.
REPORTS = ("AWS::CloudFormation::WaitConditionHandle", "AWS::CloudFormation::WaitCondition", "AWS::SSM::Parameter")


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with running() as started:
        for name, value in started.environment().items():
            monkeypatch.setenv(name, value)
        yield started


def reporting(template: Template) -> Template:
    """Return the resources through which the build reports that jobs wait for, and not those of its base image.

    Literals replace the references to other stacks.
    """
    found = {name: each for name, each in template["Resources"].items() if each["Type"] in REPORTS}
    kept = {name: each for name, each in found.items() if "DeliveryBase" not in json.dumps([name, each])}
    return {
        name: {key: _literal(value) for key, value in each.items() if key in ("Type", "Properties")}
        for name, each in kept.items()
    }


def _literal(expression: Any) -> Any:
    if isinstance(expression, dict):
        if "Fn::ImportValue" in expression:
            arn = "arn:aws:ecr:us-west-2:111122223333:repository/"
            return f"{arn if 'Arn' in expression['Fn::ImportValue'] else ''}eks-p5/training"
        return {key: _literal(value) for key, value in expression.items()}
    return [_literal(each) for each in expression] if isinstance(expression, list) else expression


def build(stack: Stack, before: Template, after: Template, **signal: str) -> str:
    """Deploy as CloudFormation does it: the handle exists, the build signals, and the condition hears it."""
    new = {name: each for name, each in after.items() if each["Type"].endswith("Handle")}
    handles = {**before, **new}
    (name,) = new
    stack.deploy(handles, Outputs={"Url": {"Value": {"Ref": name}}})
    body = json.dumps({"Reason": "", "UniqueId": "image", "Data": "", **signal}).encode()
    urllib.request.urlopen(urllib.request.Request(stack.outputs()["Url"], method="PUT", data=body)).close()
    return stack.deploy(after)


@pytest.mark.exhaustive
def test_a_launch_after_a_failed_build_uses_the_image_that_was_built_last(
    emulator: Emulator,
    hand_off: HandOff,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "first").mkdir()
    first = reporting(synthesized(tmp_path / "first")["image"])
    edited(tmp_path, monkeypatch, "training/train.py")
    second = reporting(synthesized(tmp_path)["image"])
    stack = Stack(emulator, boto3.client("cloudformation"))
    assert build(stack, {}, first, Status="SUCCESS", Data=DIGEST) == "UPDATE_COMPLETE"
    failed = build(stack, first, second, Status="FAILURE", Reason="no space left on device")
    assert failed == "UPDATE_ROLLBACK_COMPLETE"

    platform = load_platform(EKS)
    new = hand_off.model_copy(update={"platform": platform.name, "image_uri": "repository:new"})
    assert read_image(platform, new).endswith(f"/training@{DIGEST}")
    assert "warning: the training image repository:new of the last deploy is not built" in capsys.readouterr().err
