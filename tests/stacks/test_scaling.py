"""Node groups of EKS that scale: what the stacks give the Cluster Autoscaler, and what a deploy leaves of its sizes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.stacks.by_example import Synthesized
from tests.synthesis import Template, resources

TAG = "k8s.io/cluster-autoscaler/node-template/resources/"


def node_groups(template: Template) -> dict[str, Any]:
    return {each["Labels"]["trainway.dev/nodes"]: each for each in resources(template, "AWS::EKS::Nodegroup").values()}


def test_the_auto_scaling_group_itself_keeps_the_ceiling(synthesized: Synthesized) -> None:
    groups = node_groups(synthesized["eks-p5"]["cluster"])
    assert groups["train"]["ScalingConfig"] == {"MinSize": 4, "DesiredSize": 4, "MaxSize": 16}
    assert groups["data"]["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 0, "MaxSize": 8}


def test_nodes_that_do_not_exist_yet_are_known_by_the_node_group(synthesized: Synthesized) -> None:
    groups = node_groups(synthesized["eks-p5"]["cluster"])
    assert groups["train"]["Tags"] == {f"{TAG}nvidia.com/gpu": "8", f"{TAG}vpc.amazonaws.com/efa": "32"}
    # By this label the autoscaler waits for a new node's GPUs.
    assert groups["train"]["Labels"]["k8s.amazonaws.com/accelerator"] == "p5.48xlarge"
    assert groups["train"]["Taints"] == [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NO_SCHEDULE"}]
    assert "Tags" not in groups["data"]
    assert set(groups["data"]["Labels"]) == {"trainway.dev/nodes"}


def test_the_autoscaler_has_its_role_before_it_starts(synthesized: Synthesized) -> None:
    template = synthesized["eks-p5"]["cluster"]
    associations = resources(template, "AWS::EKS::PodIdentityAssociation")
    ((name, _),) = [item for item in associations.items() if item[1]["ServiceAccount"] == "cluster-autoscaler"]
    # The stage that installs charts starts with its pipeline.
    (pipeline,) = [each for each in template["Resources"].values() if each["Type"] == "AWS::CodePipeline::Pipeline"]
    assert name in pipeline["DependsOn"]


def test_hyperpods_cluster_has_no_role_for_it(synthesized: Synthesized) -> None:
    roles = resources(synthesized["hyperpod-eks-p5"]["cluster"], "AWS::IAM::Role")
    assert not any(name.startswith("ClusterAutoscaler") for name in roles)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def test_a_deploy_leaves_the_size_that_the_autoscaler_has_set(emulator: Emulator) -> None:
    """CloudFormation acts on a size only when the template has another one."""
    session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=emulator.region)
    cloudformation = session.client("cloudformation", endpoint_url=emulator.endpoint)
    eks = session.client("eks", endpoint_url=emulator.endpoint)
    role = f"arn:aws:iam::123456789012:role/{uuid.uuid4().hex}"
    eks.create_cluster(
        name="atlas", version="1.34", roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-0123456789abcdef0"]}
    )

    def deploy(sizes: tuple[int, int, int], labels: dict[str, str]) -> int:
        scaling = dict(zip(("MinSize", "DesiredSize", "MaxSize"), sizes, strict=True))
        properties = {
            "ClusterName": "atlas",
            "NodeRole": role,
            "Subnets": ["subnet-0123456789abcdef0"],
            "ScalingConfig": scaling,
            "Labels": labels,
        }
        body = json.dumps({"Resources": {"Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}}})
        exists = any(each["StackName"] == "atlas-cluster" for each in cloudformation.describe_stacks()["Stacks"])
        if exists:
            cloudformation.update_stack(StackName="atlas-cluster", TemplateBody=body)
        else:
            cloudformation.create_stack(StackName="atlas-cluster", TemplateBody=body)
        (stack,) = cloudformation.describe_stacks(StackName="atlas-cluster")["Stacks"]
        assert stack["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
        return desired()

    def desired() -> int:
        (name,) = eks.list_nodegroups(clusterName="atlas")["nodegroups"]
        group = eks.describe_nodegroup(clusterName="atlas", nodegroupName=name)["nodegroup"]
        return int(group["scalingConfig"]["desiredSize"])

    assert deploy((0, 0, 8), {"a": "1"}) == 0
    (name,) = eks.list_nodegroups(clusterName="atlas")["nodegroups"]
    eks.update_nodegroup_config(clusterName="atlas", nodegroupName=name, scalingConfig={"desiredSize": 5})
    assert deploy((0, 0, 8), {"a": "2"}) == 5
    # A change of the sizes themselves sends all three: docs/eks-nodes.md says so.
    assert deploy((0, 0, 9), {"a": "2"}) == 0
