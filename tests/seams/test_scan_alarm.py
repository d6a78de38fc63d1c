"""The rules that tell of vulnerabilities match the events of ECR and Inspector, and may publish to the topic."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.seams.evaluator import Question, allowed, role
from tests.seams.policies import identity_policies
from tests.seams.resolved import ACCOUNT, Deployed, deployed_of
from tests.seams.seam import Planted, Seam
from trainway.spec.sections.image import SEVERITIES

PLATFORM = "hyperpod-eks-shared"
REPOSITORY = "atlas/training"
DIGEST = "sha256:7f5b2640fe6fb4f46592dfd3410c4a79dac4f89e4782432e0378abcd12345678"
ARN = f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/{REPOSITORY}"
# The event of basic scanning: https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html
BASIC: dict[str, Any] = {
    "detail-type": "ECR Image Scan",
    "source": "aws.ecr",
    "resources": [ARN],
    "detail": {
        "scan-status": "COMPLETE",
        "repository-name": REPOSITORY,
        "finding-severity-counts": {"CRITICAL": 10, "MEDIUM": 9},
        "image-digest": DIGEST,
        "image-tags": ["c0ffee"],
    },
}
# The event of enhanced scanning after a push, whose repository is an ARN:
# https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-scanning-enhanced-events.html
ENHANCED: dict[str, Any] = {
    "detail-type": "Inspector2 Scan",
    "source": "aws.inspector2",
    "resources": [ARN],
    "detail": {
        "scan-status": "INITIAL_SCAN_COMPLETE",
        "repository-name": ARN,
        "finding-severity-counts": {"CRITICAL": 7, "HIGH": 61, "MEDIUM": 62, "TOTAL": 158},
        "image-digest": DIGEST,
        "image-tags": ["c0ffee"],
    },
}


def finding(tag: str, severity: str = "CRITICAL", status: str = "ACTIVE") -> dict[str, Any]:
    """Return Inspector's event of a finding, less what no rule reads. The names are those of botocore's Finding.

    EventBridge matches an object in an array as it matches the object itself. moto's matcher knows the latter alone:
    https://github.com/aws/event-ruler/blob/main/README.md (JSON Array Matching; read 2026-11-23)
    https://docs.aws.amazon.com/inspector/latest/user/eventbridge-integration.html (read 2026-11-23)
    """
    image = {"repositoryName": REPOSITORY, "imageTags": [tag], "imageHash": DIGEST, "registry": ACCOUNT}
    return {
        "detail-type": "Inspector2 Finding",
        "source": "aws.inspector2",
        "resources": [f"{ARN}/{DIGEST}"],
        "detail": {
            "severity": severity,
            "status": status,
            "title": "CVE-2026-0001 - openssl",
            "type": "PACKAGE_VULNERABILITY",
            "resources": {"type": "AWS_ECR_CONTAINER_IMAGE", "details": {"awsEcrContainerImage": image}},
        },
    }


def matches(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    from moto.events.models import EventPattern

    return bool(EventPattern.load(json.dumps(pattern)).matches_event(event))  # type: ignore[arg-type]


def counted(event: dict[str, Any], **counts: int) -> dict[str, Any]:
    return {**event, "detail": {**event["detail"], "finding-severity-counts": counts}}


@pytest.mark.parametrize("event", [BASIC, ENHANCED], ids=["basic", "enhanced"])
def test_a_scan_is_told_of_if_it_finds_the_severity_or_a_worse_one(event: dict[str, Any]) -> None:
    from stacks.constructs.monitoring.scan_alarm import pattern_of_scans

    critical, high = (
        pattern_of_scans(REPOSITORY, ARN, ("critical",)),
        pattern_of_scans(REPOSITORY, ARN, ("critical", "high")),
    )
    assert matches(critical, event) and matches(high, event)
    for counts, told in (({"HIGH": 1}, True), ({"CRITICAL": 0, "HIGH": 2}, True), ({"HIGH": 0}, False), ({}, False)):
        assert matches(high, counted(event, **counts)) is told
        assert not matches(critical, counted(event, **counts))
    of_another = {**event, "detail": {**event["detail"], "repository-name": f"{REPOSITORY}-of-others"}}
    assert not matches(critical, of_another)


def test_a_choice_of_one_is_no_choice() -> None:
    """EventBridge takes some `$or` for the name of a field, which moto's matcher does not know."""
    from stacks.constructs.monitoring.scan_alarm import pattern_of_scans

    for count, severities in enumerate((SEVERITIES[:1], SEVERITIES[:2], SEVERITIES), start=1):
        detail = pattern_of_scans(REPOSITORY, ARN, severities)["detail"]
        assert len(detail.get("$or", [])) == (0 if count == 1 else len(severities))


def test_a_later_finding_is_told_of_if_jobs_can_use_the_image() -> None:
    from stacks.constructs.monitoring.scan_alarm import pattern_of_findings

    pattern = pattern_of_findings(REPOSITORY, "c0ffee", ("critical", "high"))
    told = [finding(tag) for tag in ("c0ffee", "c0ffee-20261123120000", "promoted-0123456789abcdef")]
    assert all(matches(pattern, each) for each in [*told, finding("c0ffee", "HIGH")])
    untold = [finding("decade"), finding("c0ffee", "MEDIUM"), finding("c0ffee", status="CLOSED")]
    assert not any(matches(pattern, each) for each in untold)


def test_the_names_in_the_pattern_of_findings_are_inspectors() -> None:
    from tests.service_model import service_model

    model: Any = service_model("inspector2")
    found = finding("c0ffee")["detail"]
    assert found.keys() <= model.shape_for("Finding").members.keys()
    assert found["severity"] in model.shape_for("Severity").enum
    image = found["resources"]["details"]["awsEcrContainerImage"]
    assert image.keys() <= model.shape_for("AwsEcrContainerImageDetails").members.keys()
    assert found["resources"]["type"] in model.shape_for("ResourceType").enum


def rules(platform: Deployed) -> dict[str, dict[str, Any]]:
    """Return the rules that publish findings in the default image to the topic of alarms, by what they match."""
    found = [
        each
        for (stack, name), each in platform.of_type("AWS::Events::Rule").items()
        if stack == "observability" and re.match("ImageScan(AfterPush|Later)", name)
    ]
    return {each["EventPattern"]["detail-type"][0]: each for each in found}


def problems(platform: Deployed, found: dict[str, dict[str, Any]]) -> list[str]:
    """Return what keeps findings in a platform's image from its topic of alarms."""
    ((_, topic),) = [(key, each) for key, each in platform.of_type("AWS::SNS::Topic").items()]
    name = topic["KmsMasterKeyId"]
    (lock,) = [each for (stack, _), each in platform.of_type("AWS::KMS::Key").items() if stack == "observability"]
    repository = next(
        each["RepositoryName"]
        for each in platform.of_type("AWS::ECR::Repository").values()
        if each["RepositoryName"].endswith("/training")
    )
    wrong = []
    tag = json.loads(json.dumps(found["Inspector2 Finding"]["EventPattern"]))["detail"]["resources"]["details"][
        "awsEcrContainerImage"
    ]["imageTags"][0]["prefix"]
    told = json.loads(
        json.dumps({"ECR Image Scan": BASIC, "Inspector2 Finding": finding(tag)}).replace(REPOSITORY, repository)
    )
    for kind, event in told.items():
        rule = found[kind]
        if not matches(rule["EventPattern"], event):
            wrong.append(f"{kind}: the rule does not match the event")
        (target,) = rule["Targets"]
        text = target["InputTransformer"]["InputTemplate"]
        for key, path in target["InputTransformer"]["InputPathsMap"].items():
            value: Any = event
            for part in path.removeprefix("$.").split("."):
                value = value.get(part, "")
            if not value:
                wrong.append(f"{kind}: the event has no {path}")
            text = text.replace(f"<{key}>", str(value))
        if "<" in json.loads(text):
            wrong.append(f"{kind}: the message has a place that is not filled")
        starter = target["RoleArn"].rpartition("/")[2]
        own = identity_policies(platform, "observability", starter)
        publish = Question(role(starter), "sns:Publish", target["Arn"], own)
        of_the_key = [
            Question(role(starter), action, name, own, lock["KeyPolicy"])
            for action in ("kms:Decrypt", "kms:GenerateDataKey")
        ]
        if not all(allowed([publish, *of_the_key])):
            wrong.append(f"{kind}: the role may not publish")
    return wrong


def test_findings_reach_the_topic_of_alarms() -> None:
    platform = deployed_of(PLATFORM)
    assert rules(platform).keys() == {"ECR Image Scan", "Inspector2 Finding"}
    assert problems(platform, rules(platform)) == []


def planted(error: str, change: Callable[[dict[str, dict[str, Any]]], object]) -> Planted:
    """Plant an error in the rules."""

    def read(change: Callable[[dict[str, dict[str, Any]]], object] | None, _: Path) -> list[str]:
        platform = deployed_of(PLATFORM)
        found = copy.deepcopy(rules(platform))
        if change:
            change(found)
        return problems(platform, found)

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


SEAMS = (
    Seam(
        artifact="Rules that tell of vulnerabilities in the training image",
        rendered_by="stacks/constructs/monitoring/scan_alarm.py",
        reader="moto's matcher of event patterns, with the documented events of ECR and Inspector, whose names "
        "botocore's model has",
        instead="EventBridge, ECR's scans, and Inspector run only in AWS.",
        planted=(
            planted(
                "the severity is in lower case",
                lambda rules: rules["Inspector2 Finding"]["EventPattern"]["detail"].update(severity=["critical"]),
            ),
            planted(
                "the repository is without the platform's name",
                lambda rules: rules["ECR Image Scan"]["EventPattern"]["detail"].update(
                    {"repository-name": ["training"]}
                ),
            ),
            planted(
                "the message takes the digest from a place that the event lacks",
                lambda rules: rules["ECR Image Scan"]["Targets"][0]["InputTransformer"]["InputPathsMap"].update(
                    digest="$.detail.imageDigest"
                ),
            ),
        ),
    ),
)
