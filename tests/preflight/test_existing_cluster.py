"""Preflight compares an adopted cluster with its section of the platform file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.owners_cluster import ADDONS, NAME, addons_of_cluster, make_owners_cluster
from tests.owners_vpc import make_vpc
from tests.people import ADMIN
from trainway.adopt.cluster import look_at_cluster
from trainway.doctor.checks.deployed_addons import deployed_addons
from trainway.preflight.aws import AwsQuestions
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.existing_cluster import existing_cluster
from trainway.preflight.checks.stacks import stacks
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform

REGION = "us-west-2"
ENTRY = {"clusterName": NAME, "principalArn": ADMIN}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in started.environment().items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def existing(emulator: Emulator) -> dict[str, Any]:
    def client(service: str) -> Any:
        return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]

    make_owners_cluster(emulator, client, make_vpc(client("ec2")))
    return look_at_cluster(NAME, platform="tenant", region=REGION).model_dump(mode="json")


def inquiry(existing: dict[str, Any], *, platform: str = "tenant", **changes: Any) -> Inquiry:
    described = Platform.model_validate(
        {
            "name": platform,
            "region": REGION,
            "zones": ["usw2-az2", "usw2-az1"],
            "orchestrator": "eks",
            "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
            "kubernetes": {"admins": [ADMIN], "existing": existing | changes},
        }
    )
    return Inquiry(described, load_catalogue(), AwsQuestions(REGION), datetime.now(UTC))


def test_nothing_is_found_of_a_cluster_that_is_as_described(existing: dict[str, Any]) -> None:
    assert list(existing_cluster(inquiry(existing))) == []
    # The check of clusters that somebody else has does not take the adopted one for one of these.
    assert list(stacks(inquiry(existing, platform=NAME))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "absent"}, "there is no EKS cluster absent"),
        ({"version": "1.33"}, "has version 1.34"),
        ({"vpc_id": "vpc-0123456789abcdef0"}, "has vpc_id vpc-"),
        ({"authentication_mode": "API"}, "has authentication_mode API_AND_CONFIG_MAP"),
        ({"addons": ADDONS | {"metrics-server": "v0.8.0-eksbuild.1"}}, "has no add-on metrics-server"),
        ({"addons": {"vpc-cni": ADDONS["vpc-cni"], "coredns": "self-managed"}}, "has the add-on kube-proxy"),
    ],
)
def test_what_is_not_as_described_is_found(existing: dict[str, Any], change: dict[str, Any], said: str) -> None:
    found = [each.what for each in existing_cluster(inquiry(existing, **change))]
    assert len(found) == 1 and said in found[0], found


def test_an_administrator_who_is_in_already_is_found(emulator: Emulator, existing: dict[str, Any]) -> None:
    emulator.hold(access_entries=[ENTRY])
    try:
        (found,) = existing_cluster(inquiry(existing))
    finally:
        emulator.hold(access_entries=[])
    assert f"has an access entry of {ADMIN}" in found.what
    assert "persona_roles" in found.fix


def test_an_add_on_that_the_owner_removed_is_theirs_to_install(emulator: Emulator, existing: dict[str, Any]) -> None:
    emulator.hold(addons=addons_of_cluster()[1:])
    try:
        found = {each.what: each.fix for each in deployed_addons(inquiry(existing))}
    finally:
        emulator.hold(addons=addons_of_cluster())
    assert "trainway adopt shared" in found["the cluster has no add-on vpc-cni"]
    assert found["the cluster has no add-on metrics-server"] == "make deploy"
