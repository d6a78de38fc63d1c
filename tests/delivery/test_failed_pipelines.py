"""A deploy whose delivery pipeline fails ends with the phase and the reason, after one retry.

The image stack of an example is deployed on the emulated AWS, and its pipeline fails as the test says. The pipelines of
whole platforms fail in tests/changes/test_failed_deliveries.py. What EventBridge starts then is the runbook of the
template, and the script of a stage is `delivery/stage.sh`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.delivery.faults import FAULTS, PROVISIONING, SOURCE_FAULT
from tests.emulator.conftest import Stack
from tests.representatives import representatives_and_every, with_representatives
from tests.synthesis import EXAMPLES, ROOT, Template, templates_of

BUCKET = "atlas-data"
ACTION = "atlas-image/Image"
FILES = {file.stem: file for file in EXAMPLES}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def deployable(template: Template) -> Template:
    """Return the resources of a stack with literals in place of what other stacks export."""
    return {name: _literal(each) for name, each in template["Resources"].items()}


def _literal(expression: Any) -> Any:
    if isinstance(expression, dict):
        if "Fn::ImportValue" in expression:
            name = expression["Fn::ImportValue"]
            if "Bucket" in name:
                return f"arn:aws:s3:::{BUCKET}" if "Arn" in name else BUCKET
            if "registry" in name:
                return f"{'arn:aws:ecr:us-west-2:123456789012:repository/' if 'Arn' in name else ''}atlas/training"
            return f"{'subnet' if 'Subnet' in name else 'sg' if 'Group' in name else 'vpc'}-0123456789abcdef0"
        return {key: _literal(value) for key, value in expression.items()}
    return [_literal(each) for each in expression] if isinstance(expression, list) else expression


@pytest.fixture(scope="module")
def image() -> Template:
    return deployable(templates_of(ROOT / "examples/eks-p5.yaml")["image"])


@pytest.fixture
def stack(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    made = Stack(emulator, boto3.client("cloudformation"))
    where: Any = {"LocationConstraint": emulator.region}
    boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
    yield made
    made.delete()
    bucket = boto3.resource("s3").Bucket(BUCKET)
    bucket.objects.delete()
    bucket.delete()


def told(stack: Stack) -> str:
    """Return why the stack's wait condition failed."""
    (reason,) = [each for name, each in stack.events("CREATE_FAILED").items() if "Done" in name]
    return reason


# A build that is not started. In other tests a build ends in its phase PROVISIONING.
@pytest.mark.parametrize("fault", with_representatives(FAULTS, ["quota"]))
def test_a_build_that_ends_before_its_script_ends_the_deploy_with_its_phase(
    fault: str, image: Template, stack: Stack
) -> None:
    outcome, reason = FAULTS[fault]
    stack.emulator.set_builds({ACTION: [outcome, outcome]})
    assert stack.deploy(image) == "ROLLBACK_COMPLETE"
    assert f"pipeline atlas-image: Step2/Image: {reason}" in told(stack)


def test_a_failure_is_reported_in_an_account_with_more_rules_than_one_page_lists(image: Template, stack: Stack) -> None:
    events = boto3.client("events")
    others = [f"another-{number}" for number in range(60)]
    for name in others:
        events.put_rule(Name=name, ScheduleExpression="rate(1 day)")
    stack.emulator.set_builds({ACTION: [PROVISIONING, PROVISIONING]})
    assert stack.deploy(image) == "ROLLBACK_COMPLETE"
    assert "pipeline atlas-image: Step2/Image: PROVISIONING" in told(stack)
    for name in others:
        events.delete_rule(Name=name)
    assert not events.list_rules()["Rules"]


@pytest.mark.parametrize("examples", representatives_and_every(FILES))
def test_every_stage_of_every_example_is_retried_and_every_pipeline_is_watched(examples: tuple[str, ...]) -> None:
    seen = 0
    for template in (template for example in examples for template in templates_of(FILES[example]).values()):
        resources = template["Resources"]
        watched = {
            name
            for each in resources.values()
            if each["Type"] == "AWS::Events::Rule"
            # Other rules are for scans of the image.
            for name in each["Properties"]["EventPattern"]["detail"].get("pipeline", ())
        }
        for each in resources.values():
            if each["Type"] == "AWS::CodePipeline::Pipeline":
                seen += 1
                assert each["Properties"]["Name"] in watched
                assert {stage["OnFailure"]["Result"] for stage in each["Properties"]["Stages"]} == {"RETRY"}
    assert seen > len(examples)


def test_a_source_that_is_not_there_ends_the_deploy_with_its_reason(image: Template, stack: Stack) -> None:
    missing, reason = SOURCE_FAULT
    stack.emulator.set_builds({"atlas-image/Bundle": [missing, missing]})
    assert stack.deploy(image) == "ROLLBACK_COMPLETE"
    assert f"pipeline atlas-image: Source/Bundle: {reason}" in told(stack)


# The test of a script that fails once deploys with one retry, too.
@pytest.mark.exhaustive
def test_what_fails_once_is_retried_and_the_deploy_ends_well(image: Template, stack: Stack) -> None:
    # Of another stack. The build pushes the image there.
    ecr = boto3.client("ecr")
    ecr.create_repository(repositoryName="atlas/training")
    stack.emulator.set_builds({ACTION: [PROVISIONING, {}]})
    assert stack.deploy(image) == "CREATE_COMPLETE", stack.events("CREATE_FAILED")
    ecr.delete_repository(repositoryName="atlas/training", force=True)


# The twin of the tests above: it shows that the rule ends the deploy.
@pytest.mark.exhaustive
def test_without_the_rule_such_a_deploy_would_wait_for_its_time_limit(image: Template, stack: Stack) -> None:
    stack.emulator.set_builds({ACTION: [PROVISIONING, PROVISIONING]})
    rules = [name for name, each in image.items() if each["Type"] == "AWS::Events::Rule"]
    kept = {name: each for name, each in image.items() if name not in rules}
    (pipeline,) = [each for each in kept.values() if each["Type"] == "AWS::CodePipeline::Pipeline"]
    without = [name for name in pipeline["DependsOn"] if name not in rules]
    kept = {name: {**each, "DependsOn": without} if each is pipeline else each for name, each in kept.items()}
    assert stack.deploy(kept) == "ROLLBACK_COMPLETE"
    assert told(stack) == "WaitCondition timed out. Received 0 conditions when expecting 1"


@pytest.fixture
def script(workshop: Any, tmp_path: Path) -> Any:
    """Return the outcome of a build that runs stage.sh, whose script `image.sh` is the given bash."""
    kept = tmp_path / "s3"
    workshop.environment["S3"] = str(kept)
    workshop.stand_in("aws", S3)

    def outcome(body: str) -> dict[str, Any]:
        text = f"source {workshop.root}/delivery/lib.sh\n{body}\n"
        (workshop.root / "delivery" / "image.sh").write_text(text, encoding="utf-8")
        environment = {name: workshop.variables()[name] for name in ("PATH", "CALLS", "S3")}
        return {
            "command": ["bash", str(workshop.root / "delivery" / "stage.sh"), "image"],
            "environment": environment | {"SIGNAL_RETRIES": "1", "TRIES": str(tmp_path / "tries")},
        }

    return outcome


# S3 as a directory.
S3 = r"""
case "$3" in
  s3://*) cat "$S3/${3#s3://}" ;;
  -) mkdir -p "$(dirname "$S3/${4#s3://}")"; cat >"$S3/${4#s3://}" ;;
esac
"""
TRY = 'echo once >>"$TRIES"'


def tries(tmp_path: Path) -> int:
    return len((tmp_path / "tries").read_text(encoding="utf-8").splitlines())


def test_a_script_that_fails_twice_tells_the_deploy_after_the_second_time(
    image: Template, stack: Stack, script: Any, tmp_path: Path
) -> None:
    outcome = script(f"{TRY}; echo no space left on device >&2; exit 7")
    stack.emulator.set_builds({ACTION: [outcome, outcome]})
    assert stack.deploy(image) == "ROLLBACK_COMPLETE"
    assert "stage image ended with status 7, as its first attempt did" in told(stack)
    assert "no space left on device" in told(stack)
    assert tries(tmp_path) == 2


def test_a_script_that_fails_once_tells_nobody(image: Template, stack: Stack, script: Any, tmp_path: Path) -> None:
    outcome = script(f'{TRY}; [[ $(wc -l <"$TRIES") != 1 ]] || exit 7; report sha256:0123')
    stack.emulator.set_builds({ACTION: [outcome, outcome]})
    assert stack.deploy(image) == "CREATE_COMPLETE"
    value = boto3.client("ssm").get_parameter(Name="/trainway/atlas/image")["Parameter"]["Value"]
    assert json.loads(value)["pinned"].endswith("@sha256:0123")
    assert tries(tmp_path) == 2


def test_what_no_retry_can_mend_is_told_at_once_and_not_run_again(
    image: Template, stack: Stack, script: Any, tmp_path: Path
) -> None:
    outcome = script(f"{TRY}; require NOBODY_SAYS_IT")
    stack.emulator.set_builds({ACTION: [outcome, outcome]})
    assert stack.deploy(image) == "ROLLBACK_COMPLETE"
    assert "missing environment variables: NOBODY_SAYS_IT" in told(stack)
    assert tries(tmp_path) == 1


def test_a_script_whose_first_attempt_died_earlier_is_told_by_the_runbook_with_its_log(
    image: Template, stack: Stack, script: Any
) -> None:
    stack.emulator.set_builds({ACTION: [PROVISIONING, script("echo no space left on device; exit 7")]})
    assert stack.deploy(image) == "ROLLBACK_COMPLETE"
    assert "BUILD: COMMAND_EXECUTION_ERROR Error while executing command. Reason: exit status 7" in told(stack)
    assert "no space left on device" in told(stack)
