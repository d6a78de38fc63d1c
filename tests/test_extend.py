"""A module of the user's adds stacks and overrides properties, and is never the reason for a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.hand_offs import parameter_in, text_of
from tests.seams.test_templates import lint
from tests.synthesis import ROOT, context, resources
from trainway.plan import plan_document, plan_text
from trainway.spec.errors import UsageError
from trainway.spec.extension import EXTENDED_FILE
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import Pointer
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

if TYPE_CHECKING:
    import aws_cdk as cdk

(PAGE,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extend.md").read_text(encoding="utf-8"), re.DOTALL)
REGION = load_platform(ROOT / "platform.yaml").region
SOUND = "def extend(app, platform, stacks):\n    pass\n"


def platform_with(directory: Path, extend: str, source: str | None = None, file: str = "extensions.py") -> Path:
    """Return a copy of the first platform file that names an extension, with the extension's file beside it."""
    copy = directory / "platform.yaml"
    copy.write_text(f"{(ROOT / 'platform.yaml').read_text(encoding='utf-8')}\nextend: {extend}\n", encoding="utf-8")
    if source is not None:
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_text(source, encoding="utf-8")
    return copy


# One synthesis for what the page promises.
@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    from stacks.extended import synthesize

    directory = tmp_path_factory.mktemp("extended")
    file = platform_with(directory, "extensions.py", PAGE)
    app = cdk.App(outdir=str(directory / "cdk.out"), context=context())
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    synthesize(app, load_platform(file))
    return directory / "cdk.out"


def template(assembly: Path, role: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((assembly / f"first-{role}.template.json").read_text(encoding="utf-8"))
    return loaded


def test_the_module_of_the_page_raises_a_property_adds_a_stack_and_an_aspect(assembly: Path) -> None:
    (nodes,) = resources(template(assembly, "cluster"), "AWS::EKS::Nodegroup").values()
    assert nodes["ScalingConfig"]["MaxSize"] == 4
    assert resources(template(assembly, "own"), "AWS::SSM::Parameter")
    groups = resources(template(assembly, "image"), "AWS::Logs::LogGroup").values()
    assert groups and all(group["RetentionInDays"] == 731 for group in groups)


def test_what_the_module_did_is_listed_and_nothing_else(assembly: Path) -> None:
    listed = json.loads((assembly / EXTENDED_FILE).read_text(encoding="utf-8"))
    assert listed["file"].endswith("/extensions.py")
    assert set(listed["stacks"]["first-own"].values()) == {"added"}
    assert listed["stacks"]["first-cluster"].pop("TrainNodes") == "changed"
    changed = {
        template(assembly, stack.removeprefix("first-"))["Resources"][name]["Type"]
        for stack, names in listed["stacks"].items()
        for name in names
    }
    assert changed == {"AWS::Logs::LogGroup", "AWS::SSM::Parameter"}
    assert "first-storage" not in listed["stacks"], "an export is no change of a resource"


def test_the_hand_off_has_the_hash_of_the_module(assembly: Path) -> None:
    pointer = Pointer.model_validate_json(text_of(parameter_in(assembly)["Value"], lambda _: "x"))
    assert pointer.trainway is not None and pointer.trainway.extension == sha256(PAGE.encode()).hexdigest()


def test_cdk_nag_and_cfn_lint_read_what_the_module_made(assembly: Path) -> None:
    report = json.loads((assembly / "validation-report.json").read_text(encoding="utf-8"))
    assert any(plugin["pluginName"] == "AwsSolutions" for plugin in report["pluginReports"])
    for role in ("own", "cluster"):
        assert lint((assembly / f"first-{role}.template.json").read_text(encoding="utf-8"), REGION) == (), role


@pytest.mark.parametrize(
    ("extend", "file", "source", "said"),
    [
        ("missing.py", "other.py", SOUND, r"there is no file .*/missing\.py"),
        ("no_such_package.extensions", "other.py", SOUND, r"this Python has no module no_such_package\.extensions"),
        ("extensions.py", "extensions.py", "def extend(app:\n", r"extensions\.py:1: it is not valid Python"),
        ("extensions.py", "extensions.py", "def extends(app, platform, stacks): ...\n", "has no function extend"),
        (
            "extensions.py",
            "extensions.py",
            "\ndef extend(app): ...\n",
            r"extensions\.py:2: extend takes other arguments",
        ),
        ("a b", "other.py", SOUND, "neither a module nor the path of a Python file"),
    ],
)
def test_check_says_what_cannot_be_an_extension(tmp_path: Path, extend: str, file: str, source: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        load_platform(platform_with(tmp_path, extend, source, file))
    assert re.search(r"platform\.yaml:\d+:1: extend = ", str(caught.value)) and "fix: " in str(caught.value)


@pytest.mark.parametrize("extend", ["extensions.py", "extensions", "mine.more", "mine"])
def test_check_finds_the_module_and_imports_nothing(tmp_path: Path, extend: str) -> None:
    alarm = "raise SystemExit('imported')\n"
    file = {"extensions.py": "extensions.py", "extensions": "extensions.py", "mine.more": "mine/more.py"}.get(extend)
    platform_file = platform_with(tmp_path, extend, alarm + SOUND, file or "mine/__init__.py")
    if extend == "mine.more":
        (tmp_path / "mine" / "__init__.py").write_text(alarm, encoding="utf-8")
    platform = load_platform(platform_file)
    assert platform.extension is not None
    assert f"Extended by {platform.extension.file}" in plan_text(plan_document(platform, load_catalogue()))


def synthesize_small(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Synthesize an extension over an app of one small stack; return the names of all stacks."""
    import aws_cdk as cdk
    from aws_cdk import aws_sns as sns

    from stacks import extended
    from stacks.extended import synthesize

    def small(app: cdk.App, _: object) -> SimpleNamespace:
        stack = cdk.Stack(app, "small")
        sns.CfnTopic(stack, "Topic")
        return SimpleNamespace(small=stack)

    monkeypatch.setattr(extended, "add_stacks", small)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("mine", "mine.more", "mine.beside", "extensions", "trainway_extension", "beside"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = synthesize(cdk.App(outdir=str(file.parent / "cdk.out")), load_platform(file))
    return [stack.stack_name for stack in made.stacks]


ADDS = (
    "import aws_cdk as cdk\nfrom {beside} import NAME\ndef extend(app, platform, stacks):\n    cdk.Stack(app, NAME)\n"
)


@pytest.mark.parametrize(
    ("extend", "file", "beside"),
    [
        ("extensions.py", "extensions.py", "beside"),
        ("sub/extensions.py", "sub/extensions.py", "beside"),
        ("mine.more", "mine/more.py", ".beside"),
    ],
)
def test_a_module_may_import_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extend: str, file: str, beside: str
) -> None:
    platform_file = platform_with(tmp_path, extend, ADDS.format(beside=beside), file)
    (tmp_path / file).with_name("beside.py").write_text("NAME = 'theirs'\n", encoding="utf-8")
    if beside.startswith("."):
        (tmp_path / "mine" / "__init__.py").touch()
    assert synthesize_small(platform_file, monkeypatch) == ["small", "theirs"]


ASPECT = """\
import aws_cdk as cdk
import jsii

@jsii.implements(cdk.IAspect)
class Wrong:
    def visit(self, node):
        raise KeyError("no such node")

def extend(app, platform, stacks):
    cdk.Aspects.of(app).add(Wrong())
"""
WRONG_PROPERTY = "def extend(app, platform, stacks):\n    stacks.small.node.find_child('Nothing')\n"


@pytest.mark.parametrize(
    ("source", "line", "why"),
    [
        (SOUND + "import no_such_module\n", 3, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def extend(app, platform, stacks):\n    stacks.smal\n", 2, "AttributeError"),
        (WRONG_PROPERTY, 2, "Nothing"),
        (ASPECT, 7, "KeyError: 'no such node'"),
    ],
    ids=["import", "attribute", "cdk", "aspect"],
)
def test_an_error_in_the_module_is_shown_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, line: int, why: str
) -> None:
    file = platform_with(tmp_path, "extensions.py", source)
    with pytest.raises(UsageError) as caught:
        synthesize_small(file, monkeypatch)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/extensions.py:{line}: the extension failed\n    why: ")
    assert why in said and said.count("\n") == 2, said


def test_the_app_prints_no_traceback(tmp_path: Path) -> None:
    file = platform_with(tmp_path, "extensions.py", SOUND + "1 / 0\n")
    given = {"CDK_OUTDIR": str(tmp_path / "out"), "CDK_CONTEXT_JSON": json.dumps({"platform": str(file)})}
    app = [sys.executable, str(ROOT / "app.py")]
    ran = subprocess.run(app, env={**os.environ, **given}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert f"{tmp_path}/extensions.py:3: the extension failed\n    why: ZeroDivisionError" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_page_lists_every_name() -> None:
    from stacks import platform as stacks_of_platforms

    names = stacks_of_platforms.PlatformStacks.__dataclass_fields__
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in names)
