"""`make deploy` shows who would be allowed what and asks once, because stacks that are made side by side cannot ask."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.synthesis import ROOT

CDK = "node_modules/aws-cdk/bin/cdk"


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Where a stand-in for the CDK writes what it is asked to do."""
    log = tmp_path / "calls"
    node = tmp_path / "node"
    node.write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    node.chmod(0o755)
    return log


def deploy(calls: Path, *arguments: str, answer: str = "") -> tuple[int, list[str]]:
    """The exit status, and what the CDK was asked to do."""
    environment = {**os.environ, "PATH": f"{calls.parent}:{os.environ['PATH']}", "AT_ONCE": "3"}
    command = [str(ROOT / "scripts" / "deploy"), *arguments]
    ran = subprocess.run(command, input=answer, text=True, env=environment, capture_output=True)
    return ran.returncode, calls.read_text().splitlines()


def test_whoever_agrees_gets_a_deploy_side_by_side_that_asks_nothing_more(calls: Path) -> None:
    status, asked = deploy(calls, "--all", "--context", "platform=x.yaml", answer="y\n")
    assert status == 0
    options = "--all --context platform=x.yaml"
    assert asked == [
        f"{CDK} diff --security-only --method=template {options}",
        f"{CDK} deploy --import-existing-resources --concurrency 3 --require-approval=never {options}",
    ]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "nothing", "nobody there"])
def test_without_a_yes_nothing_is_deployed(calls: Path, answer: str) -> None:
    status, asked = deploy(calls, "--all", answer=answer)
    assert status == 1
    assert [call.split()[1] for call in asked] == ["diff"]


def test_where_nobody_can_be_asked_the_option_decides(calls: Path) -> None:
    status, asked = deploy(calls, "one", "--require-approval=never")
    assert status == 0
    assert asked == [f"{CDK} deploy --import-existing-resources --concurrency 3 one --require-approval=never"]
