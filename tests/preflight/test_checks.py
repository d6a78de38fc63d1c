"""Every check is wired and documented, asks what it says, and no check keeps a run from ending."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_type_hints

import pytest
from typer.testing import CliRunner

from docs.generators import preflight_page
from tests import deployer_actions
from tests.service_model import service_model
from tests.synthesis import EXAMPLES, ROOT, templates_of
from trainway.cli import app
from trainway.doctor import checks as deployed_checks
from trainway.doctor.checks import DEPLOYED_CHECKS
from trainway.preflight import aws, checks
from trainway.preflight.aws import NotAnswered
from trainway.preflight.check import AccountCheck, CheckTable, Inquiry, run_checks
from trainway.preflight.checks import CHECKS
from trainway.preflight.checks.region import zones_of_file
from trainway.preflight.deployer import ACTIONS_FILE, LARGEST_POLICY
from trainway.preflight.deployer import deployer_actions as actions_of_platform
from trainway.preflight.finding import AccountFinding, FindingLevel, error
from trainway.preflight.report import as_text
from trainway.spec.capacity.quotas import quota_needs
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

# A check does not read it: these tests never ask AWS.
NO_INQUIRY = cast(Inquiry, object())


@pytest.mark.parametrize(
    ("package", "table"), [(checks, CHECKS), (deployed_checks, DEPLOYED_CHECKS)], ids=["preflight", "doctor"]
)
def test_every_check_of_the_package_is_in_the_table(package: ModuleType, table: CheckTable) -> None:
    names = [f"{package.__name__}.{each.name}" for each in pkgutil.iter_modules(package.__path__)]
    written = {
        function
        for module in map(importlib.import_module, names)
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if get_type_hints(function) == {"inquiry": Inquiry, "return": Iterator[AccountFinding]}
        and not function.__name__.startswith("_")
    }
    assert {each.function for each in table} == written, "put @check before a function that checks an account"
    assert len({each.name for each in table}) == len(table) > 6
    files = [Path(inspect.getfile(each.function)) for each in table]
    assert len(set(files)) == len(files), "each check has a file of its own"
    assert all(file.stem == each.name.replace("-", "_") for file, each in zip(files, table, strict=True))


def test_the_page_lists_every_check() -> None:
    assert preflight_page.PAGE.read_text(encoding="utf-8") == preflight_page.page(), (
        "run `python -m docs.generators.preflight_page`"
    )


@pytest.mark.parametrize("check", [*CHECKS, *DEPLOYED_CHECKS], ids=lambda check: check.name)
def test_a_check_names_the_permissions_that_it_needs(check: AccountCheck) -> None:
    asked = set(_asked(Path(inspect.getfile(check.function))))
    assert asked <= set(check.permissions)
    for permission in check.permissions:
        prefix, _, name = permission.partition(":")
        services = {value: key for key, value in aws._PREFIXES.items()}
        operations = service_model(services.get(prefix, prefix)).operation_names
        assert name in operations or permission in aws._ACTIONS.values(), permission


def _asked(file: Path) -> Iterator[str]:
    """Yield the IAM actions of the calls that stand in a module with their names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        words = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
        if node.func.attr in ("ask", "pages") and len(words) == 2:
            service, operation = map(str, words)
            names = {_snake(name): name for name in service_model(service).operation_names}
            named = f"{service}:{names[operation]}"
            prefix, _, name = aws._ACTIONS.get(named, named).partition(":")
            yield f"{aws._PREFIXES.get(prefix, prefix)}:{name}"


def _snake(name: str) -> str:
    from botocore import xform_name

    return str(xform_name(name))


def test_a_check_that_never_ends_is_told() -> None:
    forever = threading.Event()

    def waits(_inquiry: Inquiry) -> Iterator[AccountFinding]:
        """A thing that takes long."""
        yield error("first", why="why", fix="fix")
        forever.wait()

    def ends(_inquiry: Inquiry) -> Iterator[AccountFinding]:
        """A thing that ends."""
        yield error("other", why="why", fix="fix")

    found = run_checks([AccountCheck(waits, ()), AccountCheck(ends, ())], NO_INQUIRY, seconds=3)
    forever.set()
    assert [(each.check, each.level, each.what) for each in found] == [
        ("waits", FindingLevel.ERROR, "first"),
        ("waits", FindingLevel.NOT_CHECKED, "A thing that takes long."),
        ("ends", FindingLevel.ERROR, "other"),
    ]
    assert "within 3 s" in found[1].why


def test_a_check_that_fails_hides_nothing() -> None:
    def fails(_inquiry: Inquiry) -> Iterator[AccountFinding]:
        """A thing with a fault."""
        yield error("first", why="why", fix="fix")
        raise KeyError("Lifecycle")

    def silent(_inquiry: Inquiry) -> Iterator[AccountFinding]:
        """A thing that AWS does not tell."""
        raise NotAnswered("ec2:DescribeSubnets", "the caller may not", "ask for it")
        yield

    found = run_checks([AccountCheck(fails, ()), AccountCheck(silent, ())], NO_INQUIRY)
    assert [each.level for each in found] == [FindingLevel.ERROR, FindingLevel.NOT_CHECKED, FindingLevel.NOT_CHECKED]
    assert "KeyError: 'Lifecycle'" in found[1].why and found[2].fix == "ask for it"


def test_what_was_not_checked_for_one_reason_is_told_once() -> None:
    level, why, fix = FindingLevel.NOT_CHECKED, "AWS cannot be asked", "mend the credentials"
    findings = [
        AccountFinding(level, "A thing.", why, fix, check="things"),
        AccountFinding(level, "A slow thing.", "it takes long", "run it again", check="slow"),
        error("the account is closed", why="why", fix="fix"),
        AccountFinding(level, "Another thing.", why, fix, check="others"),
    ]
    assert as_text(findings, None, "atlas").splitlines() == [
        "not checked: 2 checks (others, things)",
        "    why: AWS cannot be asked",
        "    fix: mend the credentials",
        "not checked: A slow thing. (slow)",
        "    why: it takes long",
        "    fix: run it again",
        "error: the account is closed ()",
        "    why: why",
        "    fix: fix",
        "atlas: 1 error, 3 not checked.",
    ]


def test_every_call_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call of one check may take longer than a whole run: connecting, reading, and the repetition together."""
    from trainway.preflight.check import SECONDS

    assert SECONDS < 30 > (aws.CONNECT_SECONDS + aws.READ_SECONDS) * aws.ATTEMPTS
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(NotAnswered, match="sts:GetCallerIdentity"):
        aws.AwsQuestions("us-west-2")


def test_the_actions_are_those_of_the_registry() -> None:
    assert ACTIONS_FILE.read_text(encoding="utf-8") == deployer_actions.text(), "run `python -m tests.deployer_actions`"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_printed_policies_have_the_actions_of_every_type_of_the_templates(file: Path) -> None:
    platform = load_platform(file)
    kinds = {each["Type"] for template in templates_of(file).values() for each in template["Resources"].values()}
    needed = {action for kind in kinds for action in deployer_actions.actions_of(kind)}
    ran = CliRunner().invoke(
        app, ["preflight", str(file), "--print-policy"], env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}
    )
    policies: list[dict[str, Any]] = json.loads(ran.stdout)
    allowed = {action for policy in policies for statement in policy["Statement"] for action in statement["Action"]}
    assert needed <= allowed == actions_of_platform(platform)
    assert all(len(json.dumps(policy, separators=(",", ":"))) <= LARGEST_POLICY for policy in policies)
    roles = [statement["Resource"] for policy in policies for statement in policy["Statement"]
             if "iam:CreateRole" in statement["Action"]]  # fmt: skip
    assert roles == [f"arn:*:iam::*:role/{platform.name}-*"]


def test_hand_written_actions_are_of_the_services() -> None:
    for action in {action for actions in deployer_actions.BY_HAND.values() for action in actions} - {"iam:PassRole"}:
        service, _, name = action.partition(":")
        assert name in service_model(service).operation_names, action


def test_the_example_of_the_page_has_the_need_of_its_platform() -> None:
    page = (ROOT / "docs" / "preflight.md").read_text(encoding="utf-8")
    needs = quota_needs(load_platform(ROOT / "examples" / "eks-p5.yaml"), load_catalogue())
    (need,) = [each for each in needs if f"the quota {each.name} is 0" in page]
    assert f"--quota-code {need.code} --desired-value {need.needed}\n" in page
    assert f"the platform needs {need.needed} at its largest" in page


def test_each_zone_of_the_file_is_asked_for_once_a_local_zone_where_its_group_names_it() -> None:
    groups = [
        {"name": name, "instance_type": "p5.48xlarge", "count": 1, "zone": zone}
        for name, zone in (("far", "use1-atl2-az1"), ("near", "use1-az2"), ("more", "use1-atl2-az1"))
    ]
    asked = {"name": "atlas", "region": "us-east-1", "zones": ["use1-az1", "use1-az2"], "node_groups": groups}
    assert list(zones_of_file(Platform.model_validate(asked))) == [
        (("zones", 0), "use1-az1"),
        (("zones", 1), "use1-az2"),
        (("node_groups", 0, "zone"), "use1-atl2-az1"),
    ]
