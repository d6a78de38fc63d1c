"""A diff tells what people and running jobs notice: lost roles and queues, a closed way out, and an upgrade's rest."""

from __future__ import annotations

from typing import Any

from tests.people import ADMIN
from trainway.diff.compare import compare
from trainway.diff.consequences import consequences
from trainway.diff.tokens import StackTemplate
from trainway.spec.platform import Platform


def platform(*teams: str, orchestrator: str = "eks") -> Platform:
    return Platform.model_validate(
        {
            "region": "us-west-2",
            "zones": ["usw2-az1", "usw2-az2"],
            "orchestrator": orchestrator,
            "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}],
            "teams": [{"name": team} for team in teams],
            **({"kubernetes": {"admins": [ADMIN]}} if orchestrator == "eks" else {}),
        }
    )


def stack(**resources: dict[str, Any]) -> dict[str, StackTemplate]:
    return {"trainway-cluster": {"Resources": resources}}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def told(before: dict[str, StackTemplate], after: dict[str, StackTemplate], file: Platform, *teams: str) -> list[str]:
    return list(consequences(compare(before, after), file, after, teams))


def test_a_team_that_leaves_loses_its_queue_and_the_role_of_its_jobs() -> None:
    role = resource(
        "AWS::EKS::PodIdentityAssociation", Namespace="red", ServiceAccount="training-job", ClusterName="x", RoleArn="y"
    )
    other = resource(
        "AWS::EKS::PodIdentityAssociation", Namespace="kube-system", ServiceAccount="fsx", ClusterName="x", RoleArn="y"
    )
    queue, lost = told(stack(Red=role, Driver=other), stack(), platform("blue"), "red", "blue")
    assert queue.startswith("red leaves the platform: its queue takes no more jobs")
    assert "`trainway status --team red`" in queue
    assert lost.startswith("running jobs of red lose their role")
    assert told(stack(Red=role), stack(Red=role), platform("red"), "red") == []


def test_the_jobs_of_a_team_on_slurm_lose_the_role_of_their_team() -> None:
    file = platform("blue", orchestrator="hyperpod-slurm")
    roles = [
        resource("AWS::IAM::Role", Description=f"Slurm jobs of {file.name} for {team}", AssumeRolePolicyDocument={})
        for team in ("red", "green")
    ]
    both, lost = told(stack(Red=roles[0], Green=roles[1]), stack(), file, "red", "green", "blue")
    assert both.startswith("red and green leave the platform: their queues take no more jobs")
    assert lost.startswith("running jobs of green and red lose their role")


def test_nodes_lose_their_way_to_the_internet_with_the_nat_gateway() -> None:
    gateway = resource("AWS::EC2::NatGateway", SubnetId="subnet-1")
    (sentence,) = told(stack(Nat=gateway), stack(), platform())
    assert "lose their way to the internet" in sentence and "docs/closed-network.md" in sentence
    assert told(stack(), stack(Nat=gateway), platform()) == []


def test_an_upgrade_tells_what_it_leaves_and_how_long_that_takes() -> None:
    groups = {
        name: resource("AWS::EKS::Nodegroup", ClusterName="x", ScalingConfig={"DesiredSize": count})
        for name, count in (("Train", 4), ("System", 2))
    }

    def cluster(version: str) -> dict[str, Any]:
        return resource("AWS::EKS::Cluster", Name="x", Version=version)

    (sentence,) = told(stack(C=cluster("1.34"), **groups), stack(C=cluster("1.35"), **groups), platform())
    assert "the API servers of 1.34 by those of 1.35" in sentence
    assert "The nodes of 2 groups and the add-ons keep their versions" in sentence
    assert "takes about 20 min for the largest group" in sentence
