"""Next to nothing of what checkov looks for is wrong with the examples, and what is left has its reason.

The fixes are encryption for the most part, which is worth having only where those who write may still write.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.representatives import representatives_and_every
from tests.stacks.by_example import FILES, Synthesized
from tests.synthesis import ROOT, Template, resources

# checkov's dependencies conflict with ours: it has a virtual environment of its own.
CHECKOV = ROOT / ".checkov" / "bin" / "checkov"
ACCEPTED = yaml.safe_load(Path(__file__).with_name("accepted_findings.yaml").read_text(encoding="utf-8"))
MOST_FAILED_PER_RESOURCE = 0.05

Finding = tuple[str, str]


@pytest.fixture(scope="module")
def report(synthesized: Synthesized, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What checkov's default rules say about every template, without a word to any server."""
    assert CHECKOV.exists(), "`make setup-dev` installs checkov"
    scanned, elsewhere = tmp_path_factory.mktemp("scanned"), tmp_path_factory.mktemp("elsewhere")
    for example, by_role in synthesized.items():
        for role, template in by_role.items():
            (scanned / f"{example}.{role}.json").write_text(json.dumps(template), encoding="utf-8")
    options = ["--framework", "cloudformation", "--compact", "--quiet", "--output", "json", "--skip-download"]
    # Neither its home nor its working directory may hold a configuration of somebody's.
    environment = {**os.environ, "HOME": str(elsewhere)}
    command = [str(CHECKOV), *options, "--directory", str(scanned)]
    checked = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=elsewhere, env=environment, timeout=1800
    )
    assert checked.returncode in (0, 1), checked.stdout + checked.stderr
    said: dict[str, Any] = json.loads(checked.stdout)
    return said


def findings(report: dict[str, Any]) -> Counter[Finding]:
    """How often each check fails, by its id and the resource's type."""
    return Counter(
        (failed["check_id"], failed["resource"].split(".")[0]) for failed in report["results"]["failed_checks"]
    )


def accepted() -> list[Finding]:
    return [(entry["check"], kind) for entry in ACCEPTED for kind in entry["resource_types"]]


def all_templates(synthesized: Synthesized) -> Iterator[Template]:
    for by_role in synthesized.values():
        yield from by_role.values()


@pytest.fixture(params=representatives_and_every(FILES))
def read(request: pytest.FixtureRequest, synthesized: Synthesized) -> list[Template]:
    """Return the templates of one platform of each orchestrator, or of all examples."""
    return [template for name in request.param for template in synthesized[name].values()]


@pytest.mark.exhaustive
def test_checkov_reads_every_resource_and_no_template_silences_a_check(
    report: dict[str, Any], synthesized: Synthesized
) -> None:
    summary = report["summary"]
    assert summary["resource_count"] == sum(len(each["Resources"]) for each in all_templates(synthesized))
    assert (summary["skipped"], summary["parsing_errors"]) == (0, 0)
    assert summary["passed"] > 0


@pytest.mark.exhaustive
def test_at_most_one_check_fails_on_twenty_resources(report: dict[str, Any]) -> None:
    failed = findings(report)
    assert failed.total() <= MOST_FAILED_PER_RESOURCE * report["summary"]["resource_count"], failed.most_common()


@pytest.mark.exhaustive
def test_what_fails_is_accepted(report: dict[str, Any]) -> None:
    assert not {finding: count for finding, count in findings(report).items() if finding not in accepted()}


@pytest.mark.exhaustive
def test_what_is_accepted_still_fails(report: dict[str, Any]) -> None:
    assert not [finding for finding in accepted() if finding not in findings(report)]


def test_a_check_is_accepted_once_and_with_its_reason() -> None:
    assert len(accepted()) == len(set(accepted()))
    assert len(ACCEPTED) == len({entry["check"] for entry in ACCEPTED})
    assert all(len(entry["reason"].split()) > 10 for entry in ACCEPTED)


def statements_for(policy: dict[str, Any], service: str) -> list[dict[str, Any]]:
    """What a policy allows to a service, whose name may end with the partition's suffix."""
    return [
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow" and service in json.dumps(statement["Principal"].get("Service"))
    ]


def key_of(template: Template, reference: Any) -> dict[str, Any]:
    name, attribute = reference["Fn::GetAtt"]
    assert attribute == "Arn"
    key: dict[str, Any] = resources(template, "AWS::KMS::Key")[name]
    return key


def own_groups(template: Template) -> dict[str, Any]:
    """Return the log groups that go with their stack. One that stays has no key of the stack."""
    found = resources(template, "AWS::Logs::LogGroup")
    stays = {name for name in found if template["Resources"][name]["DeletionPolicy"] == "Retain"}
    assert not any("KmsKeyId" in found[name] for name in stays)
    return {name: each for name, each in found.items() if name not in stays}


def test_cloudwatch_logs_may_use_the_key_of_every_log_group_and_for_nothing_else(read: list[Template]) -> None:
    encrypted = 0
    for template in read:
        for group in own_groups(template).values():
            (may,) = statements_for(key_of(template, group["KmsKeyId"])["KeyPolicy"], "logs.")
            assert {"kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"} <= set(may["Action"])
            assert "kms:EncryptionContext:aws:logs:arn" in may["Condition"]["ArnLike"]
            encrypted += 1
    assert encrypted


def test_every_queue_is_encrypted(read: list[Template]) -> None:
    queues = [each for template in read for each in resources(template, "AWS::SQS::Queue").values()]
    assert queues
    assert all(each["SqsManagedSseEnabled"] is True for each in queues)


def test_who_writes_to_a_log_group_may_use_its_key_through_cloudwatch_logs(read: list[Template]) -> None:
    written: list[Any] = []
    encrypted: list[Any] = []
    for template in read:
        groups = own_groups(template)
        for policy in resources(template, "AWS::IAM::Policy").values():
            statements = policy["PolicyDocument"]["Statement"]
            for write in [each for each in statements if "logs:PutLogEvents" in each["Action"]]:
                if "Fn::GetAtt" not in write["Resource"]:
                    continue  # log groups that a service makes, by a name that it chooses
                key = groups[write["Resource"]["Fn::GetAtt"][0]]["KmsKeyId"]
                (use,) = [each for each in statements if each["Resource"] == key]
                assert use["Action"] == ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"]
                assert "kms:ViaService" in use["Condition"]["StringEquals"]
                written.append(key)
        encrypted += [group["KmsKeyId"] for group in groups.values()]
    assert len(written) == len(encrypted) > 0


def test_log_groups_of_a_stack_share_one_key(read: list[Template]) -> None:
    for template in read:
        groups = own_groups(template).values()
        assert len({json.dumps(group["KmsKeyId"]) for group in groups}) == min(1, len(groups))


def test_alarms_may_publish_to_the_topic_and_use_its_key(example: Path, synthesized: Synthesized) -> None:
    template = synthesized[example.stem]["observability"]
    (topic,) = resources(template, "AWS::SNS::Topic").values()
    (policy,) = resources(template, "AWS::SNS::TopicPolicy").values()
    (publish,) = statements_for(policy["PolicyDocument"], "cloudwatch.amazonaws.com")
    (use,) = statements_for(key_of(template, topic["KmsMasterKeyId"])["KeyPolicy"], "cloudwatch.amazonaws.com")
    assert publish["Action"] == "sns:Publish"
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert {"ArnLike", "StringEquals"} == set(publish["Condition"]) == set(use["Condition"])


def test_no_key_that_goes_with_its_stack_encrypts_what_stays(read: list[Template]) -> None:
    for template in read:
        going = {
            name
            for name, resource in template["Resources"].items()
            if resource["Type"] == "AWS::KMS::Key" and resource["DeletionPolicy"] == "Delete"
        }
        kept = [resource for resource in template["Resources"].values() if resource.get("DeletionPolicy") == "Retain"]
        assert not [name for name in going for resource in kept if f'"{name}"' in json.dumps(resource)]
