"""The time limits of stages follow from creation.yaml, and the page about images has the same figures."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.stacks.by_example import Synthesized
from tests.synthesis import ROOT
from trainway.spec.deployment.creation import AUTOSCALING, CHARTS, SCRIPTS, durations
from trainway.spec.deployment.stage_times import stage_times

PAGE = ROOT / "docs/image-operations.md"


def projects(templates: dict[str, dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return the time limit of a stage's project, and the longest wait for it, in minutes, by the stage's name."""
    found = {}
    for template in templates.values():
        resources = template["Resources"]
        waits = {
            each["Properties"]["Handle"]["Ref"]: int(each["Properties"]["Timeout"]) // 60
            for each in resources.values()
            if each["Type"] == "AWS::CloudFormation::WaitCondition"
        }
        parameters = {
            each["Properties"]["Name"]: waits[each["Properties"]["Value"]["Ref"]]
            for each in resources.values()
            if each["Type"] == "AWS::SSM::Parameter" and "/delivery/" in each["Properties"]["Name"]
        }
        for each in resources.values():
            if each["Type"] == "AWS::CodeBuild::Project":
                variables = {v["Name"]: v["Value"] for v in each["Properties"]["Environment"]["EnvironmentVariables"]}
                name = variables["WAIT_HANDLE_URL"].split("/delivery/")[1]
                found[name] = each["Properties"]["TimeoutInMinutes"], parameters[variables["WAIT_HANDLE_URL"]]
    return found


def test_the_page_has_the_limits_of_the_stages(synthesized: Synthesized) -> None:
    rows = re.findall(r"^\| (base|image|mirror|cluster) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    steps = {"base": "training image", "image": "training image on its base", "cluster": "charts"}
    deployed = projects(synthesized["eks-p5"])
    assert len(rows) == 4
    for stage, usual, limit, longest in rows:
        assert int(usual) == durations()[steps.get(stage, stage)].minutes
        assert (int(limit), int(longest)) == deployed[stage]


def test_a_script_that_waits_for_itself_ends_before_its_stage() -> None:
    def constant(file: str, pattern: str) -> int:
        [seconds] = re.findall(pattern, (ROOT / "delivery" / file).read_text())
        return int(seconds) // 60

    assert durations()[AUTOSCALING].waits == constant("autoscaling.sh", r"KARPENTER_TIMEOUT_SECONDS:-(\d+)")
    assert durations()[CHARTS].waits == 3 * constant("cluster.sh", r"ROLLOUT_TIMEOUT_SECONDS:-(\d+)")
    assert durations()[SCRIPTS].waits == constant("enroot_package.sh", r"--kill-after=5 (\d+) make")


@pytest.mark.parametrize(
    ("steps", "usual", "limit"),
    [
        (["training image"], 30, 60),
        (["training image", "Transformer Engine"], 90, 180),
        (["training image on its base"], 5, 15),
        (["charts"], 8, 38),
    ],
)
def test_a_limit_is_twice_the_usual_and_not_below_what_the_stage_waits_for(
    steps: list[str], usual: int, limit: int
) -> None:
    times = stage_times(*steps)
    assert (times.usual, times.limit) == (usual, limit)
