"""The emulator refuses what an API refuses by its model, whoever calls it: the tests' own clients ask before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from tests.service_model import botocores_own

TRUST = "{}"


@pytest.fixture(autouse=True)
def _plain_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients send what a user's client sends."""
    monkeypatch.setattr(ParamValidator, "validate", botocores_own)


# A call with a text or a list of some size, and the most that the API takes.
CALLS: dict[str, tuple[Callable[[Any, int], Any], int]] = {
    "events": (lambda it, n: it.put_rule(Name="limits", EventPattern="{}", Description="x" * n), 512),
    "iam": (lambda it, n: it.create_role(RoleName=f"r{n}", AssumeRolePolicyDocument=TRUST, Description="x" * n), 1000),
    "logs": (lambda it, n: it.create_log_group(logGroupName="x" * n), 512),
    "ecr": (lambda it, n: it.create_repository(repositoryName="x" * n), 256),
    "eks": (lambda it, n: it.list_clusters(maxResults=n), 100),
    "kms": (lambda it, n: it.create_key(Description="x" * n), 8192),
    "cloudwatch": (lambda it, n: it.describe_alarms(AlarmNamePrefix="x" * n), 255),
    "secretsmanager": (lambda it, n: it.create_secret(Name="x" * n, SecretString="y"), 512),
}


@pytest.mark.parametrize("service", CALLS)
def test_a_call_beyond_a_limit_is_refused(service: str, client: Callable[[str], Any]) -> None:
    call, most = CALLS[service]
    call(client(service), most)
    with pytest.raises(ClientError, match=f" is {most + 1}, not .* to {most}") as caught:
        call(client(service), most + 1)
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_a_parameter_of_automation_is_not_longer_than_it_may_be(client: Callable[[str], Any]) -> None:
    start = client("ssm").start_automation_execution
    with pytest.raises(ClientError, match=r"it\.Parameters\.Reason\[0\] is 513, not 1 to 512"):
        start(DocumentName="AWS-Anything", Parameters={"Reason": ["x" * 513]})


def test_a_target_of_a_rule_is_not_longer_than_it_may_be(client: Callable[[str], Any]) -> None:
    events = client("events")
    events.put_rule(Name="long", EventPattern="{}")
    template = {"InputPathsMap": {"a": "$.a"}, "InputTemplate": "x" * 8193}
    target = {"Id": "1", "Arn": "arn:aws:sns:us-west-2:123456789012:t", "InputTransformer": template}
    with pytest.raises(ClientError, match=r"InputTransformer\.InputTemplate is 8193"):
        events.put_targets(Rule="long", Targets=[target])
