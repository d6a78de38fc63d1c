"""The emulator refuses a parameter that Parameter Store refuses, from a client and from CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, WaiterError

from emulator import Emulator, running


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def client(emulator: Emulator, service: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=emulator.endpoint,
        region_name="us-west-2",
        aws_access_key_id="emulator",
        aws_secret_access_key="emulator",
    )


@pytest.mark.parametrize(
    ("tier", "size", "taken"),
    [
        ("Standard", 4096, True),
        ("Standard", 4097, False),
        ("Advanced", 8192, True),
        ("Advanced", 8193, False),
        ("Intelligent-Tiering", 8192, True),
        ("Intelligent-Tiering", 8193, False),
    ],
)
def test_a_value_has_the_size_of_its_tier(emulator: Emulator, tier: str, size: int, taken: bool) -> None:
    """https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html"""
    put = client(emulator, "ssm").put_parameter
    asked = {"Name": f"/size/{tier}-{size}", "Type": "String", "Tier": tier, "Value": "x" * size}
    if taken:
        put(**asked)
        return
    with pytest.raises(ClientError, match="support a maximum parameter value of") as caught:
        put(**asked)
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_a_value_is_measured_in_bytes(emulator: Emulator) -> None:
    with pytest.raises(ClientError, match="maximum parameter value of 4096"):
        client(emulator, "ssm").put_parameter(Name="/size/bytes", Type="String", Value="\N{EURO SIGN}" * 1366)


@pytest.mark.parametrize("name", ["/a b", "/a//b", "/a/", "/ä", "/" + "/".join("x" * 16), "/" + "x" * 1011])
def test_a_name_that_is_not_allowed_is_refused(emulator: Emulator, name: str) -> None:
    with pytest.raises(ClientError, match="Parameter name"):
        client(emulator, "ssm").put_parameter(Name=name, Type="String", Value="x")


def test_cloudformation_fails_with_it(emulator: Emulator) -> None:
    cloudformation = client(emulator, "cloudformation")
    properties = {"Name": "/large", "Type": "String", "Value": "x" * 8193, "Tier": "Intelligent-Tiering"}
    template = {"Resources": {"Large": {"Type": "AWS::SSM::Parameter", "Properties": properties}}}
    cloudformation.create_stack(StackName="large", TemplateBody=json.dumps(template))
    with pytest.raises(WaiterError):
        cloudformation.get_waiter("stack_create_complete").wait(StackName="large", WaiterConfig={"Delay": 1})
    events = cloudformation.describe_stack_events(StackName="large")["StackEvents"]
    assert any("maximum parameter value of 8192" in each.get("ResourceStatusReason", "") for each in events)
