"""Clients of every protocol read what a test gives the emulated account, and are refused what the test denies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from emulator import Emulator, EmulatorError

END = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
# One call of each protocol: EC2's, query, JSON, REST with JSON, and REST with XML.
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ec2:DescribeSubnets": ("ec2", "describe_subnets", {}),
    "iam:GetRole": ("iam", "get_role", {"RoleName": "nobody"}),
    "cloudformation:DescribeStacks": ("cloudformation", "describe_stacks", {}),
    "ssm:GetParameter": ("ssm", "get_parameter", {"Name": "x"}),
    "eks:DescribeCluster": ("eks", "describe_cluster", {"name": "atlas"}),
    "s3:HeadBucket": ("s3", "head_bucket", {"Bucket": "atlas"}),
    "s3:ListBuckets": ("s3", "list_buckets", {}),
}


@pytest.fixture(autouse=True)
def nothing_is_left(emulator: Emulator) -> Iterator[None]:
    yield
    emulator.hold(denied=[], others_buckets=[], capacity_reservations=[], quotas=[])


def test_a_client_reads_what_the_account_has(emulator: Emulator, client: Callable[[str], Any]) -> None:
    held = {"CapacityReservationId": "cr-1", "State": "active", "EndDate": END.isoformat(), "TotalInstanceCount": 3}
    emulator.hold(capacity_reservations=[held])
    (found,) = client("ec2").describe_capacity_reservations()["CapacityReservations"]
    assert (found["EndDate"], found["TotalInstanceCount"], found["State"]) == (END, 3, "active")
    with pytest.raises(ClientError, match=r"InvalidCapacityReservationId\.NotFound"):
        client("ec2").describe_capacity_reservations(CapacityReservationIds=["cr-2"])


def test_quotas_are_plenty_until_one_is_set(emulator: Emulator, client: Callable[[str], Any]) -> None:
    quotas = client("service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-1"}
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] > 100_000
    emulator.hold(quotas=[asked | {"Value": 8}])
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 8


@pytest.mark.parametrize("action", CALLS)
def test_a_call_that_is_denied_is_refused(action: str, emulator: Emulator, client: Callable[[str], Any]) -> None:
    service, operation, asked = CALLS[action]
    emulator.hold(denied=[action])
    with pytest.raises(ClientError) as caught:
        getattr(client(service), operation)(**asked)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    emulator.hold(denied=["ec2:DescribeVpcs"])
    try:
        getattr(client(service), operation)(**asked)
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] != 403


def test_policies_are_judged(client: Callable[[str], Any]) -> None:
    iam = client("iam")
    iam.create_role(RoleName="narrow", AssumeRolePolicyDocument=json.dumps({"Statement": []}))
    statements = [
        {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::mine/*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_role_policy(RoleName="narrow", PolicyName="narrow", PolicyDocument=document)

    def decisions(resource: str) -> dict[str, str]:
        answer = iam.simulate_principal_policy(
            PolicySourceArn="arn:aws:iam::123456789012:role/narrow",
            ActionNames=["s3:GetObject", "s3:DeleteObject", "ec2:RunInstances"],
            ResourceArns=[resource],
        )
        return {each["EvalActionName"]: each["EvalDecision"] for each in answer["EvaluationResults"]}

    denied = {"s3:DeleteObject": "explicitDeny", "ec2:RunInstances": "implicitDeny"}
    assert decisions("arn:aws:s3:::mine/x") == {"s3:GetObject": "allowed", **denied}
    assert decisions("arn:aws:s3:::theirs/x") == {"s3:GetObject": "implicitDeny", **denied}


def test_what_aws_could_not_answer_is_not_held(emulator: Emulator) -> None:
    with pytest.raises(EmulatorError, match="Unknown parameter"):
        emulator.hold(capacity_reservations=[{"Id": "cr-1"}])
    with pytest.raises(EmulatorError, match="holdings have no"):
        emulator.hold(reservations=[])
