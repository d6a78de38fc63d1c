"""What the last release deployed, this version upgrades, and loses no resource that CHANGELOG.md does not name.

The examples are deployed to the emulated AWS as the release made them (releases/VERSION), and then as this version
makes them of the same files. A release without a date can be kept anew with `python -m tests.release`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.changelog import CHANGELOG, UNRELEASED, entries, problems
from tests.releases import KeptPlatform, baseline, filled, masked_templates, read_release
from tests.representatives import PLATFORMS, with_representatives
from tests.synthesis import EXAMPLES, Template, assembly_in, stack_dependencies
from trainway import __version__
from trainway.spec.facts.releases import releases

TEXT = CHANGELOG.read_text(encoding="utf-8")
ENTRIES = entries(TEXT)
BASELINE = baseline(__version__, [each.version for each in ENTRIES if each.date != UNRELEASED])
# By stack and logical id, the type and the physical id.
Resources = dict[str, tuple[str, str]]
# By stack and logical id, the type of a resource, or the export of an output.
Named = dict[str, str]


@dataclass(frozen=True)
class Account:
    """An emulated AWS that platforms are deployed to as the CDK does it, but without the files of their assets."""

    emulator: Emulator

    def client(self, service: str, region: str) -> Any:
        session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=region)
        return session.client(service, endpoint_url=self.emulator.endpoint)

    def deploy(self, name: str, region: str, stacks: Mapping[str, Template], after: Mapping[str, list[str]]) -> None:
        """Deploy each stack of a platform that has changes, in the order of their dependencies."""
        cloudformation = self.client("cloudformation", region)
        live = {each["StackName"] for each in cloudformation.describe_stacks()["Stacks"]}
        for role in TopologicalSorter(after).static_order():
            stack = f"{name}-{role}"
            kind = "UPDATE" if stack in live else "CREATE"
            change = {"StackName": stack, "ChangeSetName": "change"}
            cloudformation.create_change_set(
                **change,
                ChangeSetType=kind,
                TemplateBody=json.dumps(stacks[role]),
                Capabilities=["CAPABILITY_NAMED_IAM"],
            )
            described = cloudformation.describe_change_set(**change)
            if described["Status"] == "FAILED" and "didn't contain changes" in described["StatusReason"]:
                cloudformation.delete_change_set(**change)
                continue
            assert described["Status"] == "CREATE_COMPLETE", f"{stack}: {described['StatusReason']}"
            cloudformation.execute_change_set(**change)
            (found,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
            why = [found.get("StackStatusReason"), *self._failures(cloudformation, stack)]
            assert found["StackStatus"] == f"{kind}_COMPLETE", f"{stack}: {why}"

    def resources(self, name: str, region: str, roles: list[str]) -> Resources:
        """Return what is in the platform's stacks."""
        cloudformation = self.client("cloudformation", region)
        return {
            f"{role}/{each['LogicalResourceId']}": (each["ResourceType"], each["PhysicalResourceId"])
            for role in roles
            for each in cloudformation.describe_stack_resources(StackName=f"{name}-{role}")["StackResources"]
        }

    def _failures(self, cloudformation: Any, stack: str) -> list[str]:
        events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
        return [
            f"{e['LogicalResourceId']}: {e['ResourceStatusReason']}" for e in events if "FAILED" in e["ResourceStatus"]
        ]


# One for each test: a platform leaves its buckets behind, and two examples have the same name.
@pytest.fixture
def account() -> Iterator[Account]:
    with running() as emulator:
        account = Account(emulator)
        for region in ("us-west-2", "us-east-1", "us-east-2"):
            account.client("ssm", region).put_parameter(
                Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
            )
        yield account


def losses(before: Resources, after: Resources) -> list[str]:
    """Return what a deploy removed and replaced, as CHANGELOG.md writes it."""
    found = []
    for name, (kind, identity) in sorted(before.items()):
        if name not in after:
            found.append(f"Removes {name}")
        elif after[name] != (kind, identity):
            found.append(f"Replaces {name}")
    return found


def allowed(loss: str) -> bool:
    """Whether a version after the baseline says so; while nothing is released, none needs to."""
    return any(each.allows(loss) for each in ENTRIES if each.version != BASELINE)


@pytest.mark.parametrize("example", with_representatives([file.stem for file in EXAMPLES], ("platform",)))
def test_an_upgrade_replaces_and_removes_nothing_unsaid(example: str, account: Account, tmp_path: Path) -> None:
    kept = read_release(BASELINE)[example]
    platform = kept.platform(tmp_path)
    name, region = platform.name, platform.region
    account.deploy(name, region, kept.deployable(), kept.after)
    before = account.resources(name, region, list(kept.after))

    made = {role: json.loads(filled(text)) for role, text in masked_templates(platform).items()}
    account.deploy(name, region, made, stack_dependencies(assembly_in(platform)))
    # A stack that this version does not have any more stays, and its resources cost money.
    gone = [f"Removes {role}/*" for role in kept.after if role not in made]
    lost = [*gone, *losses(before, account.resources(name, region, [each for each in kept.after if each in made]))]
    unsaid = [loss for loss in lost if not allowed(loss) and not loss.endswith("/*")] + gone
    assert not unsaid, f"an upgrade from {BASELINE} loses what CHANGELOG.md does not name"


def named(stacks: Mapping[str, Template]) -> Named:
    """Return the type of each resource, and the export of each output."""
    found: Named = {}
    for role, template in stacks.items():
        found |= {f"{role}/{name}": each["Type"] for name, each in template["Resources"].items()}
        for name, output in template.get("Outputs", {}).items():
            found[f"{role}/{name}"] = json.dumps(output.get("Export", {}).get("Name"))
    return found


def unnamed(before: Named, after: Named) -> list[str]:
    """Return the names that are gone, or that stand for something else, as CHANGELOG.md writes it."""
    gone = [f"Removes {name}" for name in before.keys() - after.keys()]
    return sorted(
        [*gone, *(f"Replaces {name}" for name in before.keys() & after.keys() if before[name] != after[name])]
    )


@pytest.mark.parametrize("example", with_representatives([file.stem for file in EXAMPLES], PLATFORMS))
def test_a_version_keeps_every_logical_id_and_export(example: str, tmp_path: Path) -> None:
    """Compare the templates of every example. `make test` deploys one of them."""
    kept = read_release(BASELINE)[example]
    made = {role: json.loads(text) for role, text in masked_templates(kept.platform(tmp_path)).items()}
    before = named({role: json.loads(text) for role, text in kept.templates.items()})
    assert not [loss for loss in unnamed(before, named(made)) if not allowed(loss)]


def test_a_logical_id_a_type_and_an_export_that_are_gone_are_found() -> None:
    bucket, moved = {"Type": "AWS::S3::Bucket"}, {"Value": "x", "Export": {"Name": "first"}}
    before = {"storage": {"Resources": {"Data": bucket, "Logs": bucket}, "Outputs": {"Moved": moved, "Gone": {}}}}
    after = json.loads(json.dumps(before))
    del after["storage"]["Resources"]["Data"], after["storage"]["Outputs"]["Gone"]
    after["storage"]["Resources"]["Logs"]["Type"] = "AWS::S3::DirectoryBucket"
    after["storage"]["Outputs"]["Moved"]["Export"]["Name"] = "second"
    lost = ["Removes storage/Data", "Removes storage/Gone", "Replaces storage/Logs", "Replaces storage/Moved"]
    assert unnamed(named(before), named(after)) == lost
    assert not unnamed(named(before), named(before))


def test_a_renamed_resource_is_found(account: Account) -> None:
    """The promise can be broken: a queue under another logical id, and a topic that needs another name."""
    topics = {"Kept": "kept", "Moved": "moved", "Renamed": "one"}
    before = {
        "Resources": {key: {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": v}} for key, v in topics.items()}
    }
    after = json.loads(json.dumps(before))
    after["Resources"]["Elsewhere"] = {"Type": "AWS::SNS::Topic"}
    del after["Resources"]["Moved"]
    after["Resources"]["Renamed"]["Properties"]["TopicName"] = "two"
    seen = []
    for template in (before, after):
        account.deploy("small", "us-west-2", {"one": template}, {"one": []})
        seen.append(account.resources("small", "us-west-2", ["one"]))
    assert losses(*seen) == ["Removes one/Moved", "Replaces one/Renamed"]


def test_what_is_kept_is_every_example_with_its_lock() -> None:
    kept = read_release(BASELINE)
    assert kept.keys() == {file.stem for file in EXAMPLES} or __version__ != BASELINE
    assert all("subnets:" in each.lock and each.templates.keys() == each.after.keys() for each in kept.values())


def test_the_changelog_has_this_version_and_every_other(tmp_path: Path) -> None:
    kept: KeptPlatform = read_release(BASELINE)["platform"]
    made = masked_templates(kept.platform(tmp_path))
    # Compare values: the layout of the texts may be another one than that of the release.
    differs = made.keys() != kept.templates.keys() or any(
        json.loads(text) != json.loads(kept.templates[role]) for role, text in made.items()
    )
    listed = [release.version for release in releases()]
    assert not list(problems(TEXT, __version__, listed, BASELINE, differs=differs))


SOUND = """\
# Changelog

## [0.2.0] - Unreleased

### What a deploy changes

- Replaces `cluster/*Nodes`: the launch template has another name.
- Tags every node.

### Added

- Removes `cluster/HandOff`: not of this section.

## [0.1.0] - 2026-12-01

### What a deploy changes

Nothing.
"""


def test_a_changelog_that_is_sound_and_what_it_allows() -> None:
    assert not list(problems(SOUND, "0.2.0", ["0.1.0", "0.2.0"], "0.1.0", differs=True))
    newest, _ = entries(SOUND)
    assert newest.allows("Replaces cluster/TrainNodes") and not newest.allows("Removes cluster/TrainNodes")
    assert not newest.allows("Removes cluster/HandOff")


@pytest.mark.parametrize(
    ("before", "after", "version", "said"),
    [
        ("0.2.0", "0.3.0", "0.2.0", "its first version is not 0.2.0"),
        ("0.1.0", "0.0.9", "0.2.0", "not those of trainway/spec/facts/releases.yaml"),
        ("2026-12-01", "Unreleased", "0.2.0", "a version below the first has no date"),
        ("Nothing.", "", "0.2.0", "no section `What a deploy changes`"),
    ],
)
def test_what_is_wrong_with_a_changelog(before: str, after: str, version: str, said: str) -> None:
    found = list(problems(SOUND.replace(before, after), version, ["0.1.0", "0.2.0"], "0.1.0", differs=False))
    assert any(said in each for each in found), found


def test_other_templates_need_a_version_that_says_so() -> None:
    listed = ["0.1.0", "0.2.0"]
    silent = SOUND.partition("- Replaces")[0] + "Nothing.\n\n" + SOUND[SOUND.index("## [0.1.0]") :]
    assert not list(problems(silent, "0.2.0", listed, "0.1.0", differs=False))
    assert any("changes nothing" in each for each in problems(silent, "0.2.0", listed, "0.1.0", differs=True))
    released = SOUND[SOUND.index("## [0.1.0]") :]
    assert any("begin the next" in each for each in problems(released, "0.1.0", ["0.1.0"], "0.1.0", differs=True))
