"""A control plane's tier and the repair of nodes reach EKS as the platform file says, and change in place."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from emulator.registry.schema import load
from tests.service_model import service_model
from tests.stacks.changes import EKS, synthesized
from tests.synthesis import Template, resources, templates_of
from trainway.spec.facts.node_repair import RepairAction, node_repair_facts
from trainway.spec.sections.kubernetes import ControlPlaneCapacity

REGION = "us-west-2"
SETTINGS = {
    "control_plane": {"tier": "tier-2xl"},
    "node_repair": {
        "stop_above": "10%",
        "at_once": 3,
        "overrides": [
            {"reason": "NvidiaXID64Error", "wait_minutes": 5, "action": "Replace"},
            {"reason": "IPAMDNotRunning", "wait_minutes": 15, "action": "NoAction"},
        ],
    },
}


def members_of(shape: str) -> dict[str, Any]:
    found: Any = service_model("eks").shape_for(shape)
    return dict(found.members)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    return synthesized(tmp_path_factory.mktemp("chosen"), change={"kubernetes": SETTINGS})


def test_the_control_plane_has_the_tier_of_the_file(chosen: dict[str, Template]) -> None:
    (cluster,) = resources(chosen["control-plane"], "AWS::EKS::Cluster").values()
    assert cluster["ControlPlaneScalingConfig"] == {"Tier": "tier-2xl"}


def test_node_groups_are_repaired_as_the_file_says(chosen: dict[str, Template]) -> None:
    for group in resources(chosen["cluster"], "AWS::EKS::Nodegroup").values():
        assert group["NodeRepairConfig"] == {
            "Enabled": True,
            "MaxUnhealthyNodeThresholdPercentage": 10,
            "MaxParallelNodesRepairedCount": 3,
            "NodeRepairConfigOverrides": [
                {
                    "NodeMonitoringCondition": "AcceleratedHardwareReady",
                    "NodeUnhealthyReason": "NvidiaXID64Error",
                    "MinRepairWaitTimeMins": 5,
                    "RepairAction": "Replace",
                },
                {
                    "NodeMonitoringCondition": "NetworkingReady",
                    "NodeUnhealthyReason": "IPAMDNotRunning",
                    "MinRepairWaitTimeMins": 15,
                    "RepairAction": "NoAction",
                },
            ],
        }


def test_none_of_it_replaces_a_cluster_or_a_node_group(chosen: dict[str, Template]) -> None:
    before, changed = templates_of(EKS), 0
    for role, kind in (("control-plane", "AWS::EKS::Cluster"), ("cluster", "AWS::EKS::Nodegroup")):
        schema, old = load(kind, REGION), resources(before[role], kind)
        for name, new in resources(chosen[role], kind).items():
            assert new != old[name]
            assert schema.replacing(old[name], new) == []
            changed += 1
    assert changed == 3


def test_a_file_has_the_tiers_that_the_api_and_cloudformation_know() -> None:
    api = members_of("ControlPlaneScalingConfig")["tier"].enum
    schema = load("AWS::EKS::Cluster", REGION).document["definitions"]["ControlPlaneScalingConfig"]
    both = set(api) & set(schema["properties"]["Tier"]["enum"])
    assert set(get_args(ControlPlaneCapacity.model_fields["tier"].annotation)) == both


def test_a_file_has_the_repairs_that_the_api_knows() -> None:
    api = members_of("NodeRepairConfigOverrides")["repairAction"].enum
    assert set(get_args(RepairAction)) == set(api)


@pytest.mark.parametrize(
    ("reported", "condition"),
    [
        ("DCGMHealthCode12", "AcceleratedHardwareReady"),
        ("DCGMHealthCode{code}", None),
        ("NvidiaXID31Error", "AcceleratedHardwareReady"),
        ("NvidiaXID31Warning", None),
        ("PodStuckTerminating", "ContainerRuntimeReady"),
    ],
)
def test_a_reason_belongs_to_the_condition_that_reports_it(reported: str, condition: str | None) -> None:
    assert node_repair_facts().condition_of(reported) == condition
