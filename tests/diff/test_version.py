"""A diff, and so a deploy, over what another version of Trainway deployed."""

from __future__ import annotations

import json

import boto3
import pytest

from emulator import running
from tests.synthesis import ROOT
from trainway.diff import look
from trainway.spec.errors import UsageError
from trainway.spec.handoff import parameter_name
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
