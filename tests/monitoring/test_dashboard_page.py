"""The commands of docs/dashboards.md are those of AWS, and what they send is what the dashboard reads."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess

import pytest
from botocore import xform_name

from tests.monitoring.test_alarms import PLATFORMS, platform
from tests.service_model import service_model
from tests.synthesis import ROOT
from trainway.monitoring.grafana import PROMETHEUS, WORKSPACE, grafana_dashboard
from trainway.monitoring.panel import ROWS
from trainway.monitoring.panels import panels
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff_names import metrics_workspace_alias

PAGE = (ROOT / "docs/dashboards.md").read_text(encoding="utf-8")
SCRIPTS = [block.replace("\\\n", " ") for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)]
CALLS = [
    call.strip().removesuffix(")")
    for block in SCRIPTS
    for call in re.findall(r"aws (?:'[^']*'|[^'\n])*", block, re.DOTALL)
    if re.match(r"aws \w+ \w+-", call)
]
# Options of the AWS CLI that are no parameters of a call.
OF_CLI = {"query", "output"}


def problems(call: str) -> list[str]:
    """Return what AWS's model of the service says against a command of the AWS CLI."""
    _, service, operation, *words = shlex.split(call)
    model = service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    if operation not in names:
        return [f"{service} has no {operation}"]
    shape = model.operation_model(names[operation]).input_shape
    assert shape
    members = {xform_name(name, "-"): name for name in shape.members}
    given = {word[2:]: value for word, value in zip(words[::2], words[1::2], strict=True)}
    found = [f"{operation} has no --{name}" for name in given.keys() - members.keys() - OF_CLI]
    found += [f"{operation} needs --{name}" for name, member in members.items() if _lacks(shape, member, name, given)]
    for name in given.keys() & members.keys():
        member = shape.members[members[name]]
        allowed = getattr(member, "enum", None) or getattr(getattr(member, "member", None), "enum", None)
        if allowed and given[name] not in allowed:
            found.append(f"--{name} is none of {allowed}")
    return found


def _lacks(shape: object, member: str, name: str, given: dict[str, str]) -> bool:
    return member in getattr(shape, "required_members", ()) and name not in given


def test_the_calls_are_those_of_awss_models() -> None:
    assert len(CALLS) == 7
    assert {call: found for call in CALLS if (found := problems(call))} == {}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("aws grafana create-workspaces --a b", "grafana has no create-workspaces"),
        ("aws grafana list-workspaces --limit 3", "list-workspaces has no --limit"),
        ("aws amp describe-workspace --query a", "describe-workspace needs --workspace-id"),
        (
            "aws grafana create-workspace-service-account --workspace-id g --name a --grafana-role ROOT",
            "--grafana-role is none of ['ADMIN', 'EDITOR', 'VIEWER']",
        ),
    ],
)
def test_a_wrong_call_is_found(wrong: str, problem: str) -> None:
    assert problems(wrong) == [problem]


def test_the_data_source_is_of_the_type_that_the_dashboard_reads() -> None:
    (sent,) = re.findall(r"--json '(\{.*?\})' ", SCRIPTS[1], re.DOTALL)
    source = json.loads(sent)
    (variable,) = grafana_dashboard(platform("eks"), load_catalogue())["templating"]["list"]
    assert source["type"] == variable["query"] == WORKSPACE
    assert PAGE.count(f"sed s/{WORKSPACE}/{PROMETHEUS}/") == 1
    (trust,) = re.findall(r"--assume-role-policy-document '(\{.*?\})'\n", SCRIPTS[0], re.DOTALL)
    assert json.loads(trust)["Statement"][0]["Principal"] == {"Service": "grafana.amazonaws.com"}


def test_jq_makes_the_body_of_an_import() -> None:
    if not shutil.which("jq"):
        pytest.skip("jq is not installed; scripts/install_nodes installs it")
    (program,) = re.findall(r"jq '(.*?)'", SCRIPTS[1])
    dashboard = grafana_dashboard(platform("eks"), load_catalogue())
    made = subprocess.run(["jq", program], input=json.dumps(dashboard), capture_output=True, text=True, check=True)
    # The API of dashboards takes these two members:
    # https://docs.aws.amazon.com/grafana/latest/userguide/v10-Grafana-API-Dashboard.html (read 2026-12-01)
    assert json.loads(made.stdout) == {"dashboard": dashboard, "overwrite": True}


def test_the_alias_of_the_workspace_is_the_one_on_the_page() -> None:
    for is_hyperpod in (False, True):
        assert f"`{metrics_workspace_alias('<platform>', is_hyperpod=is_hyperpod)}`" in PAGE


def test_the_page_has_a_line_for_each_row_and_each_panel_of_usage() -> None:
    rows = re.findall(r"^\| (\w+) \|", PAGE, re.MULTILINE)
    assert set(ROWS) <= set(rows)
    titles = {panel.title for under in PLATFORMS for panel in panels(platform(under), load_catalogue())}
    usage = PAGE.split("## Allocated and used")[1].split("\n\n- ")[0]
    described = re.findall(r"^\| (.*?) \|", usage, re.MULTILINE)[2:]
    assert described and all(any(title.startswith(name) for title in titles) for name in described)
