"""A diff over what another version of Trainway deployed, and of what an extension does."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from emulator import running
from tests.synthesis import ROOT
from trainway.diff import look
from trainway.diff.assembly import extended_resources
from trainway.diff.report import DiffedResource, DiffedStack, DiffReport, text_of
from trainway.spec.errors import UsageError
from trainway.spec.extension import EXTENDED_FILE
from trainway.spec.handoff_names import parameter_name
from trainway.spec.loader import load_platform


def test_what_a_newer_version_deployed_is_refused_before_anything_is_synthesized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = ROOT / "platform.yaml"
    platform = load_platform(file)

    def synthesize(*_: object, **__: object) -> None:
        raise AssertionError("the version is compared first")

    monkeypatch.setattr(look, "synthesize", synthesize)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with running() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        newer = json.dumps({"schema_version": 2, "trainway": {"version": "99.0.0"}})
        ssm = boto3.client("ssm", region_name=platform.region)
        ssm.put_parameter(Name=parameter_name(platform.name), Type="String", Value=newer)
        with pytest.raises(UsageError, match=r"install Trainway 99\.0\.0 or newer, and deploy with it"):
            look.look(file)
        ssm.delete_parameter(Name=parameter_name(platform.name))
        with pytest.raises(AssertionError, match="compared first"):
            look.look(file)


def test_what_an_extension_does_is_marked(tmp_path: Path) -> None:
    (tmp_path / EXTENDED_FILE).write_text(json.dumps({"file": "x.py", "stacks": {"first-own": {"Topic": "added"}}}))
    assert extended_resources(tmp_path) == {"first-own": {"Topic": "added"}}
    assert extended_resources(tmp_path / "absent") == {}
    topic = DiffedResource(
        name="Topic",
        kind="SNS::Topic",
        type="AWS::SNS::Topic",
        logical_id="Topic",
        action="created",
        by_extension="added",
    )
    stack = DiffedStack(name="first-own", is_new=True, resources=(topic,))
    told = text_of(DiffReport(platform="first", region="us-west-2", account="1", stacks=(stack,)))
    assert "SNS::Topic Topic\n" + " " * 20 + "added by your extension" in told
