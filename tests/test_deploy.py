"""Every orchestrator's example, deployed and destroyed by the real CDK command line on the emulated AWS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.synthesis import EXAMPLES, ROOT
from trainway.emulator import Emulator, running
from trainway.spec.handoff import HandOff, parameter_name
from trainway.spec.loader import load_platform

NODE = Path(sys.executable).with_name("node")
CDK = [str(NODE), str(ROOT / "node_modules/aws-cdk/bin/cdk")]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def cdk(emulator: Emulator, *arguments: str) -> str:
    environment = emulator.child_environment() | {"PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    command = [*CDK, *arguments]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES[1:], ids=lambda file: file.stem)
def test_an_example_is_deployed_unchanged_and_destroyed(example: Path, emulator: Emulator, tmp_path: Path) -> None:
    platform = load_platform(example)
    before = {resource["physical_id"] for resource in emulator.resources()}
    cdk(emulator, "bootstrap", f"aws://123456789012/{platform.region}")
    app = ["--context", f"platform={example}", "--output", str(tmp_path / "assembly")]

    cdk(emulator, "deploy", "--all", "--require-approval=never", "--progress=events", *app)
    ssm = boto3.client(
        "ssm",
        endpoint_url=emulator.endpoint,
        region_name=platform.region,
        aws_access_key_id="emulator",
        aws_secret_access_key="emulator",
    )
    hand_off = HandOff.model_validate_json(ssm.get_parameter(Name=parameter_name(platform.name))["Parameter"]["Value"])
    assert hand_off.orchestrator == platform.orchestrator.value
    assert hand_off.file_system.file_system_id.startswith("fs-")
    assert hand_off.cluster.arn.startswith("arn:aws:")

    assert "Number of stacks with differences: 0" in cdk(emulator, "diff", *app)

    cdk(emulator, "destroy", "--all", "--force", *app)
    left = Counter(
        resource["type"]
        for resource in emulator.resources()
        if resource["physical_id"] not in before and resource["stack"] != "CDKToolkit"
    )
    assert left == {"AWS::S3::Bucket": 2}, "only the data bucket and its access logs are kept"
