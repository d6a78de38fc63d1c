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


def group(template: Template, name: str = "train") -> dict[str, Any]:
    (found,) = [each for each in hyperpod(template)["InstanceGroups"] if each["InstanceGroupName"] == name]
    return dict(found)


# --- what its nodes are


def test_several_types_are_asked_for_in_their_order(tmp_path: Path) -> None:
    made = group(cluster(tmp_path, node_groups=[FLEXIBLE], accept=ANYWHERE))
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


@pytest.mark.parametrize(("capacity", "kind"), [("on-demand", "ON_DEMAND"), ("spot", "SPOT")])
def test_eks_is_given_the_same_types_in_the_same_order(tmp_path: Path, capacity: str, kind: str) -> None:
    template = cluster(tmp_path, orchestrator="eks", node_groups=[FLEXIBLE | {"capacity": capacity}], accept=ANYWHERE)
    (made,) = resources(template, "AWS::EKS::Nodegroup").values()
    assert (made["InstanceTypes"], made["CapacityType"]) == (["p5.48xlarge", "p5e.48xlarge"], kind)


def test_a_team_borrows_of_every_type_that_a_group_may_come_to_have(tmp_path: Path) -> None:
    template = cluster(tmp_path, node_groups=[FLEXIBLE], teams=[{"name": "guests"}], accept=ANYWHERE)
    (quota,) = resources(template, "AWS::SageMaker::ComputeQuota").values()
    assert quota["ComputeQuotaConfig"]["ResourceSharingConfig"]["AbsoluteBorrowLimits"] == [
        {"InstanceType": "ml.p5.48xlarge", "Count": 8},
        {"InstanceType": "ml.p5e.48xlarge", "Count": 8},
    ]


@pytest.mark.parametrize(
    ("orchestrator", "key", "value", "property"),
    [
        ("hyperpod-eks", "min_count", 2, "MinInstanceCount"),
        ("hyperpod-slurm", "min_count", 2, "MinInstanceCount"),
        ("hyperpod-eks", "image_version", "1.2.3", "ImageReleaseVersion"),
    ],
)
def test_a_key_is_a_property_of_its_group_alone(
    tmp_path: Path, orchestrator: str, key: str, value: Any, property: str
) -> None:
    other = {"name": "data", "instance_type": "m7i.8xlarge", "count": 1}
    train = {"name": "train", "instance_type": "p5.48xlarge", "count": 2, key: value}
    template = cluster(tmp_path, orchestrator=orchestrator, node_groups=[train, other])
    assert group(template)[property] == value
    assert property not in group(template, "data")


# --- what they go through first


def test_chosen_health_checks_are_the_ones_that_run(tmp_path: Path) -> None:
    made = group(cluster(tmp_path, hyperpod={"deep_health_checks": ["InstanceStress"]}))
    assert made["OnStartDeepHealthChecks"] == ["InstanceStress"]
    assert "OnStartDeepHealthChecks" not in group(cluster(tmp_path, hyperpod={"deep_health_checks": []}))


def test_karpenters_groups_are_not_held_back_by_checks(tmp_path: Path) -> None:
    """They are the ones that begin without a node."""
    groups = [{"name": name, "instance_type": "p5.48xlarge", "count": n} for n, name in enumerate(("none", "one"))]
    groups[0]["max_count"] = 4

    def checked(**hyperpod: bool) -> set[str]:
        template = cluster(tmp_path, node_groups=groups, hyperpod=hyperpod)
        return {name for name in ("none", "one") if "OnStartDeepHealthChecks" in group(template, name)}

    assert checked(autoscaling=True) == {"one"}
    assert checked() == {"none", "one"}


def test_karpenter_is_told_of_its_groups_when_hyperpod_is_there(tmp_path: Path) -> None:
    """By a delivery of its own, because the cluster waits for the first one's charts."""
    template = cluster(tmp_path, hyperpod={"autoscaling": True})
    pipelines = {
        resource["Properties"]["Name"]: resource["DependsOn"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CodePipeline::Pipeline"
    }
    assert {"HyperPod", "AutoscalingLetIn"} <= set(pipelines["full-autoscaling"])
    assert "HyperPod" not in pipelines["full-cluster"]


def test_slurm_checks_gpus_and_nothing_else(tmp_path: Path) -> None:
    groups = [
        {"name": "gpus", "instance_type": "p5.48xlarge", "count": 1},
        {"name": "trainium", "instance_type": "trn2.48xlarge", "count": 1},
        {"name": "data", "instance_type": "m7i.8xlarge", "count": 1},
    ]
    template = cluster(tmp_path, orchestrator="hyperpod-slurm", node_groups=groups, accept=ANYWHERE)
    made = hyperpod(template)["InstanceGroups"]
    assert {each["InstanceGroupName"] for each in made if "OnStartDeepHealthChecks" in each} == {"gpus"}
    assert len(made) == 5


# --- how they are patched


def patching(tmp_path: Path, asked: dict[str, Any], **changes: Any) -> Template:
    return cluster(tmp_path, hyperpod={"patching": asked}, **changes)


def test_patches_come_some_nodes_at_a_time_and_go_back_when_an_alarm_rings(tmp_path: Path) -> None:
    asked = {"schedule": SCHEDULE, "batch": 2, "wait_minutes": 30, "rollback_alarms": ["loss-is-nan"]}
    template = patching(tmp_path, asked)
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
    template = patching(tmp_path, {"schedule": SCHEDULE})
    assert not statements(template, "ExecutionRole", "cloudwatch:DescribeAlarms")
    assert "AutoRollbackConfiguration" not in group(template)["ScheduledUpdateConfig"]["DeploymentConfig"]


def test_slurm_is_patched_at_its_time_all_nodes_at_once(tmp_path: Path) -> None:
    template = patching(tmp_path, {"schedule": SCHEDULE}, orchestrator="hyperpod-slurm")
    for made in hyperpod(template)["InstanceGroups"]:
        assert made["ScheduledUpdateConfig"] == {"ScheduleExpression": SCHEDULE}


@pytest.mark.parametrize(
    ("strategy", "spelt"), [("when-idle", "WhenIdle"), ("when-all-idle", "WhenAllIdle")], ids=["each", "all"]
)
def test_idle_nodes_are_patched_by_strategy(tmp_path: Path, strategy: str, spelt: str) -> None:
    own = {"name": "own", "instance_type": "m7i.8xlarge", "count": 1, "image_id": "ami-0123456789abcdef0"}
    train = {"name": "train", "instance_type": "p5.48xlarge", "count": 1}
    template = patching(tmp_path, {"strategy": strategy}, node_groups=[train, own])
    assert group(template)["AutoPatchConfig"] == {"PatchingStrategy": spelt}
    assert "ScheduledUpdateConfig" not in group(template)
    # It follows a line of HyperPod's images, which an image of one's own is not in.
    assert "AutoPatchConfig" not in group(template, "own")


@pytest.mark.parametrize("schedule", ["cron(0 3 ? * SUNDAY *)", "every sunday", "cron(61 3 ? * SUN *)", "rate(1 day)"])
def test_a_schedule_that_the_service_would_refuse_is_an_error_in_the_file(tmp_path: Path, schedule: str) -> None:
    with pytest.raises(SpecError, match="it is not a schedule"):
        load_platform(write(tmp_path, hyperpod={"patching": {"schedule": schedule}}))
