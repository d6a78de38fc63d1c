"""`make deploy` and `make destroy` show what they do and ask once: stacks that are made side by side cannot ask."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.synthesis import ROOT

CDK = "node_modules/aws-cdk/bin/cdk"
REFUSED = 3


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Where stand-ins for the CDK and `trainway` write what they are asked to do."""
    log = tmp_path / "calls"
    for name in ("node", "trainway"):
        stand_in = tmp_path / name
        status = (
            '[ -z "$FIRST" ] || [ "$1" != diff ] || echo "$FIRST" >"$4/deploy-first"\n'
            '[ "$1" != diff ] || exit "${DIFF_STATUS:-0}"\n'
            '[ "$1" != preflight ] || exit "${PREFLIGHT_STATUS:-0}"\n'
            if name == "trainway"
            else ""
        )
        stand_in.write_text(f'#!/bin/sh\necho "{name} $@" >>{log}\n{status}')
        stand_in.chmod(0o755)
    return log


def run(script: str, calls: Path, *arguments: str, answer: str = "", **environment: str) -> tuple[int, list[str]]:
    """Return the exit status, and what the CDK and `trainway` were asked to do, with ASSEMBLY for the directory."""
    path = {"PATH": f"{calls.parent}:{os.environ['PATH']}", "AT_ONCE": "3"}
    command = [str(ROOT / "scripts" / script), *arguments]
    ran = subprocess.run(command, input=answer, text=True, env=os.environ | path | environment, capture_output=True)
    found = calls.read_text()
    for directory in set(re.findall(r"--assembly (\S+)", found)):
        assert not Path(directory).exists(), "the templates are deleted"
        found = found.replace(directory, "ASSEMBLY")
    # It runs beside the CDK, before or after the CDK's first line.
    calls_made = found.replace(CDK, "cdk").splitlines()
    if script == "deploy":
        assert calls_made[0].startswith("trainway preflight "), "it comes before everything else"
    watches = [call for call in calls_made if call.startswith("trainway image watch")]
    deploys = [call for call in calls_made if call.startswith("node cdk deploy")]
    assert len(watches) <= len(deploys)
    return ran.returncode, [call for call in calls_made if call not in watches and " preflight " not in call]


def test_whoever_agrees_gets_what_was_shown_side_by_side_and_is_asked_nothing_more(calls: Path) -> None:
    status, asked = run("deploy", calls, "--all", "--context", "platform=x.yaml", answer="y\n")
    assert status == 0
    assert asked == [
        "trainway diff x.yaml --assembly ASSEMBLY",
        "node cdk diff --security-only --method=template --no-color --app ASSEMBLY",
        "trainway lock x.yaml",
        "node cdk deploy --app ASSEMBLY --import-existing-resources --concurrency 3 --require-approval=never "
        "--all --context platform=x.yaml",
        "trainway lock x.yaml --deployed",
        "trainway image rebuild --platform x.yaml",
    ]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "nothing", "nobody there"])
@pytest.mark.parametrize("script", ["deploy", "destroy"])
def test_without_a_yes_nothing_is_changed(script: str, calls: Path, answer: str) -> None:
    status, asked = run(script, calls, "--all", answer=answer)
    assert status == 1
    assert not [call for call in asked if call.startswith((f"node cdk {script}", "trainway lock"))]
    assert any(call.startswith("trainway diff platform.yaml") for call in asked)


@pytest.mark.parametrize("rows", [3, 60])
def test_many_changes_of_permissions_are_counted_and_shown_to_whoever_asks(rows: int, calls: Path) -> None:
    node = calls.parent / "node"
    table = "".join(f"│ + │ row {number}\n" for number in range(rows)) + "│ - │ a right that goes\n"
    (calls.parent / "table").write_text(table)
    node.write_text(node.read_text() + f'[ "$2" != diff ] || cat {calls.parent}/table >&2\n')

    def shown(answer: str) -> str:
        path = {"PATH": f"{calls.parent}:{os.environ['PATH']}"}
        command = [str(ROOT / "scripts/deploy"), "--all"]
        return subprocess.run(command, input=answer, text=True, env=os.environ | path, capture_output=True).stdout

    short = rows < 30
    assert ("row 0" in shown("n\n")) is short
    assert (f"{rows} rows are added and 1 removed" in shown("n\n")) is not short
    assert "row 0" in shown("s\nn\n")


def test_what_the_diff_refuses_is_not_deployed_and_nobody_is_asked(calls: Path) -> None:
    status, asked = run("deploy", calls, "--all", answer="y\n", DIFF_STATUS=str(REFUSED))
    assert status == REFUSED
    assert [call.split()[:2] for call in asked] == [["trainway", "diff"]]


def test_what_is_wrong_with_the_account_ends_the_deploy(calls: Path) -> None:
    status, asked = run("deploy", calls, "--all", answer="y\n", PREFLIGHT_STATUS="1")
    assert (status, asked) == (1, [])
    calls.unlink()
    run("deploy", calls, "--all", "--context", "platform=x.yaml", answer="y\n", SKIP_CHECKS="budget quotas")
    assert calls.read_text().splitlines()[0] == "trainway preflight x.yaml --skip budget --skip quotas"


def test_what_is_named_may_be_replaced(calls: Path) -> None:
    _, asked = run("deploy", calls, "--all", answer="y\n", ALLOW_REPLACE="train storage.lustre")
    assert asked[0].endswith("--allow-replace train --allow-replace storage.lustre")


def test_a_stack_that_lets_go_of_an_export_is_deployed_alone_before_all_others(calls: Path) -> None:
    status, asked = run("deploy", calls, "--all", "--context", "platform=x.yaml", answer="y\n", FIRST="x-cluster")
    assert status == 0
    alone, everything = [call for call in asked if call.startswith("node cdk deploy")]
    assert alone == (
        "node cdk deploy x-cluster --app ASSEMBLY --import-existing-resources --exclusively --require-approval=never "
        "--context platform=x.yaml"
    )
    assert "--all" in everything
    _, asked = run("deploy", calls, "x-network", "--require-approval=never", FIRST="x-cluster")
    assert not [call for call in asked if "x-network" in call and "--exclusively" in call]


def test_where_nobody_can_be_asked_the_option_decides(calls: Path) -> None:
    status, asked = run("deploy", calls, "one", "--require-approval=never")
    assert status == 0
    deploy = "node cdk deploy --app ASSEMBLY --import-existing-resources --concurrency 3 one --require-approval=never"
    assert asked[2] == deploy
    assert not [call for call in asked if "cdk diff" in call]


def test_a_failed_deploy_frees_nothing_in_the_lock(calls: Path) -> None:
    node = calls.parent / "node"
    node.write_text(node.read_text() + '[ "$2" != deploy ] || exit 1\n')
    status, asked = run("deploy", calls, "--all", "--require-approval=never")
    assert status == 1
    assert "trainway lock platform.yaml --deployed" not in asked


def test_the_stacks_that_are_named_are_compared_and_destroyed(calls: Path) -> None:
    _, asked = run("deploy", calls, "one", "two", "--progress=events", answer="y\n")
    assert asked[1].endswith("--app ASSEMBLY one two")
    assert "trainway lock platform.yaml --deployed" not in asked, "the other stacks may still have what leaves"
    calls.unlink()
    status, asked = run("destroy", calls, "one", "--context", "platform=x.yaml", answer="y\n")
    assert status == 0
    assert asked == [
        "trainway diff x.yaml --destroy --stack one",
        "node cdk destroy --force one --context platform=x.yaml",
    ]


def test_a_forced_destroy_asks_nothing(calls: Path) -> None:
    status, asked = run("destroy", calls, "--all", "--force")
    assert status == 0
    assert asked[-1] == "node cdk destroy --force --all --force"
