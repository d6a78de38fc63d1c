"""What an instance group of HyperPod can be asked for, key by key; and the EKS node group of the same keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.anywhere import ANYWHERE
from tests.stacks.hyperpods import cluster, hyperpod, statements, write
from tests.synthesis import Template, resources
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

FLEXIBLE = {"name": "train", "instance_type": "p5.48xlarge", "or_types": ["p5e.48xlarge"], "count": 2, "max_count": 8}
SCHEDULE = "cron(0 3 ? * SUN *)"
OTHER = {"name": "data", "instance_type": "m7i.8xlarge", "count": 1}
# A synthesis takes a second of CPU time, so tests share platforms.
BORROWED: dict[str, Any] = {
    "node_groups": [FLEXIBLE],
    "teams": [{"name": "guests"}],
    "hyperpod": {"deep_health_checks": ["InstanceStress"]},
    "accept": ANYWHERE,
}
SCHEDULED: dict[str, Any] = {
    "node_groups": [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 2, "min_count": 2, "image_version": "1.2.3"},
        OTHER,
    ],
    "hyperpod": {"patching": {"schedule": SCHEDULE}, "deep_health_checks": []},
}
ON_SLURM: dict[str, Any] = {
    "orchestrator": "hyperpod-slurm",
    "node_groups": [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 2, "min_count": 2},
        {"name": "trainium", "instance_type": "trn2.48xlarge", "count": 1},
        OTHER,
    ],
    "hyperpod": {"patching": {"schedule": SCHEDULE}},
    "accept": ANYWHERE,
}
# The groups of Karpenter have no nodes at first.
GROUPS = [
    {"name": "none", "instance_type": "p5.48xlarge", "count": 0, "max_count": 4},
    {"name": "one", "instance_type": "p5.48xlarge", "count": 1},
]
SCALED: dict[str, Any] = {"node_groups": GROUPS, "hyperpod": {"autoscaling": True}}
ROLLED_BACK: dict[str, Any] = {
    "node_groups": GROUPS,
    "hyperpod": {
        "patching": {"schedule": SCHEDULE, "batch": 2, "wait_minutes": 30, "rollback_alarms": ["loss-is-nan"]}
    },
}


def group(template: Template, name: str = "train") -> dict[str, Any]:
    (found,) = [each for each in hyperpod(template)["InstanceGroups"] if each["InstanceGroupName"] == name]
    return dict(found)


# --- what its nodes are


def test_several_types_are_asked_for_in_their_order(tmp_path: Path) -> None:
    made = group(cluster(tmp_path, **BORROWED))
    assert made["InstanceRequirements"] == {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"]}
    assert "InstanceType" not in made
    # What follows from a type is the same for all of them, and is there.
    assert made["NetworkInterface"] == {"InterfaceType": "efa-only"}
    assert made["OnStartDeepHealthChecks"]
    assert [taint["Key"] for taint in made["KubernetesConfig"]["Taints"]] == ["nvidia.com/gpu"]


def test_a_group_of_one_type_names_it_alone(tmp_path: Path) -> None:
    made = group(cluster(tmp_path))
    assert made["InstanceType"] == "ml.p5.48xlarge"
    assert "InstanceRequirements" not in made


def test_eks_is_given_the_same_types_in_the_same_order(tmp_path: Path) -> None:
    groups = [FLEXIBLE | {"name": capacity, "capacity": capacity} for capacity in ("on-demand", "spot")]
    template = cluster(tmp_path, orchestrator="eks", node_groups=groups, accept=ANYWHERE)
    made = resources(template, "AWS::EKS::Nodegroup").values()
    types = ["p5.48xlarge", "p5e.48xlarge"]
    assert {each["CapacityType"]: each["InstanceTypes"] for each in made} == {"ON_DEMAND": types, "SPOT": types}
    assert len(made) == 2


def test_a_team_borrows_of_every_type_that_a_group_may_come_to_have(tmp_path: Path) -> None:
    template = cluster(tmp_path, **BORROWED)
    (quota,) = resources(template, "AWS::SageMaker::ComputeQuota").values()
    assert quota["ComputeQuotaConfig"]["ResourceSharingConfig"]["AbsoluteBorrowLimits"] == [
        {"InstanceType": "ml.p5.48xlarge", "Count": 8},
        {"InstanceType": "ml.p5e.48xlarge", "Count": 8},
    ]


@pytest.mark.parametrize(
    ("platform", "value", "property"),
    [
        (SCHEDULED, 2, "MinInstanceCount"),
        (ON_SLURM, 2, "MinInstanceCount"),
        (SCHEDULED, "1.2.3", "ImageReleaseVersion"),
    ],
    ids=["hyperpod-eks-min_count", "hyperpod-slurm-min_count", "image_version"],
)
def test_a_key_is_a_property_of_its_group_alone(
    tmp_path: Path, platform: dict[str, Any], value: Any, property: str
) -> None:
    template = cluster(tmp_path, **platform)
    assert group(template)[property] == value
    assert property not in group(template, "data")


# --- what they go through first


def test_chosen_health_checks_are_the_ones_that_run(tmp_path: Path) -> None:
    assert group(cluster(tmp_path, **BORROWED))["OnStartDeepHealthChecks"] == ["InstanceStress"]
    assert "OnStartDeepHealthChecks" not in group(cluster(tmp_path, **SCHEDULED))


def test_karpenters_groups_are_not_held_back_by_checks(tmp_path: Path) -> None:
    def checked(platform: dict[str, Any]) -> set[str]:
        template = cluster(tmp_path, **platform)
        return {name for name in ("none", "one") if "OnStartDeepHealthChecks" in group(template, name)}

    assert checked(SCALED) == {"one"}
    assert checked(ROLLED_BACK) == {"none", "one"}


def test_karpenter_is_told_of_its_groups_when_hyperpod_is_there(tmp_path: Path) -> None:
    """By a delivery of its own, because the cluster waits for the first one's charts."""
    template = cluster(tmp_path, **SCALED)
    pipelines = {
        resource["Properties"]["Name"]: resource["DependsOn"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CodePipeline::Pipeline"
    }
    assert {"HyperPod", "AutoscalingLetIn"} <= set(pipelines["full-autoscaling"])
    assert "HyperPod" not in pipelines["full-cluster"]


def test_slurm_checks_gpus_and_nothing_else(tmp_path: Path) -> None:
    made = hyperpod(cluster(tmp_path, **ON_SLURM))["InstanceGroups"]
    assert {each["InstanceGroupName"] for each in made if "OnStartDeepHealthChecks" in each} == {"train"}
    assert len(made) == 5


# --- how they are patched


def test_patches_come_some_nodes_at_a_time_and_go_back_when_an_alarm_rings(tmp_path: Path) -> None:
    template = cluster(tmp_path, **ROLLED_BACK)
    batch = {"Type": "INSTANCE_COUNT", "Value": 2}
    for made in hyperpod(template)["InstanceGroups"]:
        assert "AutoPatchConfig" not in made
        assert made["ScheduledUpdateConfig"] == {
            "ScheduleExpression": SCHEDULE,
            "DeploymentConfig": {
                "RollingUpdatePolicy": {"MaximumBatchSize": batch, "RollbackMaximumBatchSize": batch},
                "WaitIntervalInSeconds": 1800,
                "AutoRollbackConfiguration": [{"AlarmName": "loss-is-nan"}],
            },
        }
    (looking,) = statements(template, "ExecutionRole", "cloudwatch:DescribeAlarms")
    assert looking["Resource"]["Fn::Join"][1][-1] == ":alarm:loss-is-nan"


def test_nodes_see_no_alarm_where_none_takes_an_update_back(tmp_path: Path) -> None:
    template = cluster(tmp_path, **SCHEDULED)
    assert not statements(template, "ExecutionRole", "cloudwatch:DescribeAlarms")
    assert "AutoRollbackConfiguration" not in group(template)["ScheduledUpdateConfig"]["DeploymentConfig"]


def test_slurm_is_patched_at_its_time_all_nodes_at_once(tmp_path: Path) -> None:
    for made in hyperpod(cluster(tmp_path, **ON_SLURM))["InstanceGroups"]:
        assert made["ScheduledUpdateConfig"] == {"ScheduleExpression": SCHEDULE}


@pytest.mark.parametrize(
    ("strategy", "spelt"),
    [("when-idle", "WhenIdle"), pytest.param("when-all-idle", "WhenAllIdle", marks=pytest.mark.exhaustive)],
    ids=["each", "all"],
)
def test_idle_nodes_are_patched_by_strategy(tmp_path: Path, strategy: str, spelt: str) -> None:
    own = {"name": "own", "instance_type": "m7i.8xlarge", "count": 1, "image_id": "ami-0123456789abcdef0"}
    train = {"name": "train", "instance_type": "p5.48xlarge", "count": 1}
    template = cluster(tmp_path, hyperpod={"patching": {"strategy": strategy}}, node_groups=[train, own])
    assert group(template)["AutoPatchConfig"] == {"PatchingStrategy": spelt}
    assert "ScheduledUpdateConfig" not in group(template)
    # It follows a line of HyperPod's images, which an image of one's own is not in.
    assert "AutoPatchConfig" not in group(template, "own")


@pytest.mark.parametrize("schedule", ["cron(0 3 ? * SUNDAY *)", "every sunday", "cron(61 3 ? * SUN *)", "rate(1 day)"])
def test_a_schedule_that_the_service_would_refuse_is_an_error_in_the_file(tmp_path: Path, schedule: str) -> None:
    with pytest.raises(SpecError, match="it is not a schedule"):
        load_platform(write(tmp_path, hyperpod={"patching": {"schedule": schedule}}))
