"""What a HyperPod platform asks of an account beside what an EKS platform asks: training plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.synthesis import ROOT
from trainway.cli import app
from trainway.preflight.checks import CHECKS
from trainway.spec.capacity.quotas import quota_needs
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform

ARN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/atlas"
NOW = datetime.now(UTC)
HEALTHY: dict[str, Any] = {
    "TrainingPlanArn": ARN,
    "TrainingPlanName": "atlas",
    "Status": "Active",
    "StartTime": (NOW - timedelta(days=1)).isoformat(),
    "EndTime": (NOW + timedelta(days=9)).isoformat(),
    "TotalInstanceCount": 4,
    "AvailableInstanceCount": 4,
    "TargetResources": ["hyperpod-cluster"],
    "ReservedCapacitySummaries": [
        {
            "ReservedCapacityArn": "arn:aws:sagemaker:us-west-2:123456789012:reserved-capacity/atlas-0123456789ab",
            "InstanceType": "ml.p5.48xlarge",
            "TotalInstanceCount": 4,
            "Status": "Active",
            "AvailabilityZoneId": "usw2-az2",
        }
    ],
}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        yield emulator


@pytest.fixture
def file(tmp_path: Path) -> Path:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "capacity": {"training_plan": ARN}}
    platform = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2"],
        "orchestrator": "hyperpod-slurm",
        "node_groups": [group],
    }
    written = tmp_path / "platform.yaml"
    written.write_text(yaml.safe_dump(platform), encoding="utf-8")
    return written


def run(file: Path, emulator: Emulator, check: str) -> list[dict[str, Any]]:
    skipped = [option for each in CHECKS if each.name != check for option in ("--skip", each.name)]
    ran = CliRunner().invoke(app, ["preflight", str(file), "--json", *skipped], env=emulator.environment())
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    findings: list[dict[str, Any]] = json.loads(ran.stdout)["findings"]
    return findings


def test_a_plan_that_suffices_is_told_nothing(file: Path, emulator: Emulator) -> None:
    emulator.hold(training_plans=[HEALTHY])
    assert run(file, emulator, "training-plans") == []


@pytest.mark.parametrize(
    ("change", "level", "what", "fix"),
    [
        (None, "error", "there is no training plan atlas", "list-training-plans"),
        ({"Status": "Expired"}, "error", "is expired", "an active plan"),
        (
            {"Status": "Scheduled", "StartTime": (NOW + timedelta(hours=40)).isoformat(), "AvailableInstanceCount": 0},
            "warning", "is scheduled", "or wait",
        ),
        ({"TargetResources": ["training-job"]}, "error", "is for training-job", "hyperpod-cluster"),
        ({"AvailableInstanceCount": 1}, "error", "of the 4 instances of the training plan atlas, 1 are free", "remove"),
        ({"TotalInstanceCount": 2}, "error", "has 2 instances", "2 or less"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value)[:40],
)  # fmt: skip
def test_a_plan_that_does_not_suffice_is_found(
    change: dict[str, Any] | None, level: str, what: str, fix: str, file: Path, emulator: Emulator
) -> None:
    emulator.hold(training_plans=[] if change is None else [HEALTHY | change])
    (found,) = run(file, emulator, "training-plans")
    assert (found["level"], found["key"]) == (level, "node_groups[0].capacity.training_plan")
    assert what in found["what"] and fix in found["fix"]
    if level == "warning":
        assert "in 40 hours" in found["why"] or "in 39 hours" in found["why"]


def test_a_plan_of_another_type_and_zone_is_found(file: Path, emulator: Emulator) -> None:
    (reserved,) = HEALTHY["ReservedCapacitySummaries"]
    other = reserved | {"InstanceType": "ml.p5en.48xlarge", "AvailabilityZoneId": "usw2-az3"}
    emulator.hold(training_plans=[HEALTHY | {"ReservedCapacitySummaries": [other]}])
    kind, zone = run(file, emulator, "training-plans")
    assert "ml.p5en.48xlarge" in kind["what"] and "ml.p5.48xlarge" in kind["why"]
    assert "usw2-az3" in zone["what"] and "zone: usw2-az3" in zone["fix"]


def test_quotas_without_a_code_are_found_by_their_names(file: Path, emulator: Emulator) -> None:
    name = "Number of ml.p5.48xlarge instances in reserved capacity across training plans per Region"
    small = {"ServiceCode": "sagemaker", "QuotaCode": "L-0123ABCD", "QuotaName": name, "Value": 2, "Adjustable": True}
    emulator.hold(quotas=[small])
    (found,) = run(file, emulator, "quotas")
    assert f"the quota {name} is 2" == found["what"]
    assert found["fix"].endswith("--service-code sagemaker --quota-code L-0123ABCD --desired-value 4")
    emulator.hold(quotas=[])
    (unknown,) = run(file, emulator, "quotas")
    assert unknown["level"] == "not checked" and name in unknown["what"]


def test_instances_of_clusters_are_compared_with_their_quotas(file: Path, emulator: Emulator) -> None:
    needed = [each for each in quota_needs(load_platform(file), load_catalogue()) if each.service == "sagemaker"]
    coded = {each.name: each.code for each in needed if each.code}
    assert {name.partition(" ")[0] for name in coded} == {"ml.m7i.2xlarge", "Maximum", "Total"}
    empty = [
        {"ServiceCode": "sagemaker", "QuotaCode": code, "QuotaName": name, "Value": 0, "Adjustable": True}
        for name, code in coded.items()
    ]
    emulator.hold(quotas=empty)
    found = [each["what"] for each in run(file, emulator, "quotas") if each["level"] == "error"]
    emulator.hold(quotas=[])
    assert found == [f"the quota {name} is 0" for name in coded]


def test_networks_and_addresses_that_an_account_has_already_are_counted(file: Path, emulator: Emulator) -> None:
    def quota(service: str, code: str, value: float) -> dict[str, Any]:
        return {"ServiceCode": service, "QuotaCode": code, "QuotaName": code, "Value": value, "Adjustable": True}

    ec2 = boto3.client("ec2", region_name="us-west-2", endpoint_url=emulator.endpoint)
    there = len(ec2.describe_vpcs()["Vpcs"])
    emulator.hold(quotas=[quota("vpc", "L-F678F1CE", there + 1), quota("ec2", "L-0263D0A3", 1)])
    found = [each["what"] for each in run(file, emulator, "quotas") if each["level"] == "warning"]
    assert found == []
    ec2.allocate_address(Domain="vpc")
    emulator.hold(quotas=[quota("vpc", "L-F678F1CE", there), quota("ec2", "L-0263D0A3", 1)])
    found = [each["what"] for each in run(file, emulator, "quotas") if each["level"] == "warning"]
    assert found == [
        f"of the quota VPCs per Region, which is {there}, {there} is in use",
        "of the quota EC2-VPC Elastic IPs, which is 1, 1 is in use",
    ]
    emulator.hold(quotas=[])


def test_clusters_that_an_account_has_already_are_counted(emulator: Emulator, tmp_path: Path) -> None:
    platform = (ROOT / "examples/eks-s3.yaml").read_text(encoding="utf-8")
    file = tmp_path / "platform.yaml"
    file.write_text(platform.replace("us-east-1", "us-west-2").replace("use1-az4, use1-az6", "usw2-az1, usw2-az2"))
    quota = {"ServiceCode": "eks", "QuotaCode": "L-1194D53C", "QuotaName": "Clusters", "Value": 1, "Adjustable": True}
    eks = boto3.client("eks", region_name="us-west-2", endpoint_url=emulator.endpoint)
    subnets = {"subnetIds": ["subnet-1"]}

    def found() -> list[str]:
        return [each["what"] for each in run(file, emulator, "quotas") if "quota Clusters" in each["what"]]

    emulator.hold(quotas=[quota])
    assert found() == []
    eks.create_cluster(name="of-others", roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig=subnets)
    try:
        assert found() == ["of the quota Clusters, which is 1, 1 is in use"]
    finally:
        eks.delete_cluster(name="of-others")
        emulator.hold(quotas=[])


def test_nodes_whose_health_is_checked_deeply_are_told_before_a_deploy(file: Path, emulator: Emulator) -> None:
    def node(number: int, status: str) -> dict[str, Any]:
        return {
            "InstanceGroupName": "train",
            "InstanceId": f"i-{number:017x}",
            "InstanceType": "ml.p5.48xlarge",
            "LaunchTime": NOW.isoformat(),
            "InstanceStatus": {"Status": status},
        }

    emulator.hold(cluster_nodes={"atlas": [node(1, "Running"), node(2, "Running")]})
    assert run(file, emulator, "health-checks") == []
    emulator.hold(cluster_nodes={"atlas": [node(1, "Running"), node(2, "DeepHealthCheckInProgress")]})
    (found,) = run(file, emulator, "health-checks")
    assert (found["level"], found["what"]) == ("warning", "HyperPod checks the health of 1 node of train")
    assert "about two hours" in found["fix"]
    emulator.hold(cluster_nodes={})
