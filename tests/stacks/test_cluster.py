"""What the cluster stacks promise, for each orchestrator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hand_offs import hand_off_in, parameter_in
from tests.stacks.by_example import Synthesized
from tests.synthesis import ROOT, Template, all_resources, resources
from trainway.launch.platform.known import described_hand_off
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.kubernetes.pod_network import SYSTEM_PODS, cni_settings, pods_of_group
from trainway.spec.loader import load_platform
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.network.subnets import SubnetRole


def test_p5_node_group_has_an_efa_device_on_each_of_32_cards(synthesized: Synthesized) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html, P5, use case 1 (read 2026-11-21)"""
    templates = resources(synthesized["eks-p5"]["cluster"], "AWS::EC2::LaunchTemplate")
    (train,) = [t["LaunchTemplateData"] for name, t in templates.items() if name.startswith("Train")]
    interfaces = [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in train["NetworkInterfaces"]]
    assert interfaces == [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        *((card, 0, "efa-only") for card in range(1, 32)),
    ]


def test_every_interface_is_in_the_nodes_groups_and_the_clusters_own(synthesized: Synthesized) -> None:
    for template in resources(synthesized["eks-p5"]["cluster"], "AWS::EC2::LaunchTemplate").values():
        # EKS itself puts nodes into the cluster's group where the template, as that of system nodes, names none.
        for interface in template["LaunchTemplateData"].get("NetworkInterfaces", []):
            efa, outward, own = interface["Groups"]
            assert "EfaGroup" in efa["Fn::ImportValue"]
            assert "EfaOutward" in outward["Fn::ImportValue"]
            assert "ClusterSecurityGroupId" in own["Fn::ImportValue"]


def test_nodes_are_told_to_run_the_pods_that_their_subnet_was_sized_for(synthesized: Synthesized) -> None:
    platform, catalogue = load_platform(ROOT / "examples" / "eks-p5.yaml"), load_catalogue()
    templates = all_resources(synthesized["eks-p5"], "AWS::EC2::LaunchTemplate").values()
    told = {
        template["LaunchTemplateData"]["TagSpecifications"][0]["Tags"][0]["Value"].split("/")[1]: yaml.safe_load(
            template["LaunchTemplateData"]["UserData"]["Fn::Base64"]
            .split("node.eks.aws\n", 1)[1]
            .split("--TRAINWAY")[0]
        )["spec"]["kubelet"]["config"]["maxPods"]
        for template in templates
    }
    sized = {
        group.name: pods_of_group(group, catalogue[group.instance_type], platform.orchestrator)
        for group in platform.node_groups
    }
    assert told == {**sized, "system": SYSTEM_PODS}
    for subnet in plan_addresses(platform, catalogue).subnets:
        if name := subnet.name.removeprefix("nodes-") if subnet.role is SubnetRole.NODES else None:
            assert f"({told[name]} pods)" in subnet.needs[0].what


@pytest.mark.parametrize("name", ["eks-p5", "hyperpod-eks-p5"])
def test_pods_get_their_addresses_as_the_plan_counts_them(name: str, synthesized: Synthesized) -> None:
    orchestrator = load_platform(ROOT / "examples" / f"{name}.yaml").orchestrator
    addons = resources(synthesized[name]["control-plane"], "AWS::EKS::Addon").values()
    (cni,) = [json.loads(addon["ConfigurationValues"]) for addon in addons if addon["AddonName"] == "vpc-cni"]
    assert cni["env"] == dict(cni_settings(orchestrator))


def test_reserved_nodes_name_their_reservation(synthesized: Synthesized) -> None:
    templates = resources(synthesized["eks-p5"]["cluster"], "AWS::EC2::LaunchTemplate")
    (train,) = [t["LaunchTemplateData"] for name, t in templates.items() if name.startswith("Train")]
    target = train["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-0123456789abcdef0"}


def test_node_group_of_an_accelerated_type_keeps_other_pods_away(synthesized: Synthesized) -> None:
    groups = resources(synthesized["eks-p5"]["cluster"], "AWS::EKS::Nodegroup")
    by_name = {group["Labels"]["trainway.dev/nodes"]: group for group in groups.values()}
    assert by_name["train"]["AmiType"] == "AL2023_x86_64_NVIDIA"
    assert by_name["train"]["Taints"][0]["Effect"] == "NO_SCHEDULE"
    assert by_name["data"]["AmiType"] == "AL2023_x86_64_STANDARD"
    assert "Taints" not in by_name["data"]


def test_kubernetes_clusters_have_access_entries_encrypted_secrets_and_all_logs(synthesized: Synthesized) -> None:
    for name in ("eks-p5", "hyperpod-eks-p5"):
        (cluster,) = resources(synthesized[name]["control-plane"], "AWS::EKS::Cluster").values()
        assert cluster["AccessConfig"]["AuthenticationMode"] == "API"
        assert cluster["EncryptionConfig"][0]["Resources"] == ["secrets"]
        assert len(cluster["Logging"]["ClusterLogging"]["EnabledTypes"]) == 5


def test_hyperpod_waits_for_the_stages_that_its_nodes_need(synthesized: Synthesized) -> None:
    for name, stages in (("hyperpod-eks-p5", {"Scripts", "Cluster"}), ("hyperpod-slurm-p5en", {"Scripts"})):
        template = synthesized[name]["cluster"]
        (hyperpod,) = [r for r in template["Resources"].values() if r["Type"] == "AWS::SageMaker::Cluster"]
        conditions = set(resources(template, "AWS::CloudFormation::WaitCondition"))
        awaited = {
            stage
            for stage in ("Scripts", "Cluster")
            if any(d in conditions and d.startswith(f"Delivery{stage}Done") for d in hyperpod["DependsOn"])
        }
        assert awaited == stages


def test_hyperpod_buys_its_nodes_from_the_training_plan(synthesized: Synthesized) -> None:
    (hyperpod,) = resources(synthesized["hyperpod-eks-p5"]["cluster"], "AWS::SageMaker::Cluster").values()
    data, train = hyperpod["InstanceGroups"]
    assert (train["InstanceType"], train["InstanceCount"]) == ("ml.p5.48xlarge", 4)
    assert train["TrainingPlanArn"].endswith("training-plan/atlas")
    assert "TrainingPlanArn" not in data


def test_slurm_cluster_has_a_controller_a_login_node_and_partitions(synthesized: Synthesized) -> None:
    (hyperpod,) = resources(synthesized["hyperpod-slurm-p5en"]["cluster"], "AWS::SageMaker::Cluster").values()
    roles = {g["InstanceGroupName"]: g["SlurmConfig"]["NodeType"] for g in hyperpod["InstanceGroups"]}
    assert roles == {"controller": "Controller", "login": "Login", "train": "Compute"}
    assert hyperpod["InstanceGroups"][2]["SlurmConfig"]["PartitionNames"] == ["train"]
    mounts = [
        s["FsxLustreConfig"]["MountPath"] for g in hyperpod["InstanceGroups"] for s in g["InstanceStorageConfigs"][1:]
    ]
    assert mounts == ["/fsx"] * 3


def test_the_deploy_starts_every_pipeline_and_waits_for_its_stages(example: Path, synthesized: Synthesized) -> None:
    stacks = [each for each in synthesized[example.stem].values() if resources(each, "AWS::CodePipeline::Pipeline")]
    platform = load_platform(example)
    # Of each image, of the cluster's stages, and on Kubernetes of the mirror.
    assert len(stacks) == len(platform.image_names) + (2 if platform.orchestrator.is_kubernetes else 1)
    for template in stacks:
        waits_for_its_stages(template)


def waits_for_its_stages(template: Template) -> None:
    pipelines = resources(template, "AWS::CodePipeline::Pipeline")
    conditions = {
        name: r for name, r in template["Resources"].items() if r["Type"] == "AWS::CloudFormation::WaitCondition"
    }
    waiting = 0
    for pipeline_id, pipeline in pipelines.items():
        assert pipeline["RestartExecutionOnUpdate"] is True
        actions = [action for stage in pipeline["Stages"][1:] for action in stage["Actions"]]
        waited_for = [condition for condition in conditions.values() if pipeline_id in condition["DependsOn"]]
        assert len(waited_for) == len(actions) > 0
        waiting += len(waited_for)
    assert waiting == len(conditions)
    parameters = {
        p["Name"]: name for name, p in resources(template, "AWS::SSM::Parameter").items() if "/delivery/" in p["Name"]
    }
    signalled = {template["Resources"][name]["Properties"]["Value"]["Ref"] for name in parameters.values()}
    assert signalled == {condition["Properties"]["Handle"]["Ref"] for condition in conditions.values()}
    before = {name for pipeline in pipelines for name in template["Resources"][pipeline]["DependsOn"]}
    assert set(parameters.values()) <= before
    read = {
        variable["Value"]
        for project in resources(template, "AWS::CodeBuild::Project").values()
        for variable in project["Environment"]["EnvironmentVariables"]
        if variable["Name"] == "WAIT_HANDLE_URL" and variable["Type"] == "PARAMETER_STORE"
    }
    assert read == set(parameters)


def longest(expression: Any) -> int:
    """How long a string that CloudFormation computes can get; a bucket's name, 63 characters, is the longest part."""
    if isinstance(expression, str):
        return len(expression)
    ((function, given),) = expression.items()
    return sum(map(longest, given[1])) + len(given[0]) * len(given[1]) if function == "Fn::Join" else 63


def test_no_presigned_url_is_a_setting_of_a_pipeline_action(example: Path, synthesized: Synthesized) -> None:
    """CodePipeline's ActionConfigurationValue ends at 1,000 characters, which such a URL can reach."""
    pipelines = all_resources(synthesized[example.stem], "AWS::CodePipeline::Pipeline").values()
    actions = [action for each in pipelines for stage in each["Stages"][1:] for action in stage["Actions"]]
    settings = [action["Configuration"] for action in actions]
    assert settings and all(set(each) == {"ProjectName", "EnvironmentVariables"} for each in settings)
    assert all(longest(each["EnvironmentVariables"]) <= 1000 for each in settings)
    assert "Handle" not in json.dumps(settings)


def test_the_pipeline_may_act_before_it_is_started(example: Path, synthesized: Synthesized) -> None:
    """A first run that starts without permissions fails, and nothing starts a second one."""
    for template in synthesized[example.stem].values():
        for pipeline in (r for r in template["Resources"].values() if r["Type"] == "AWS::CodePipeline::Pipeline"):
            (own,) = [
                name
                for name, policy in resources(template, "AWS::IAM::Policy").items()
                if pipeline["Properties"]["RoleArn"]["Fn::GetAtt"][0] in str(policy["Roles"])
            ]
            assert own in pipeline["DependsOn"]


def test_hand_off_says_what_a_launcher_needs(
    example: Path, synthesized: Synthesized, assemblies: dict[str, Path]
) -> None:
    platform = load_platform(example)
    assert synthesized[example.stem]
    hand_off = hand_off_in(assemblies[example.stem])
    assert parameter_in(assemblies[example.stem])["Name"] == f"/trainway/{platform.name}/hand-off"
    assert [group.instance_type for group in hand_off.node_groups] == [g.instance_type for g in platform.node_groups]
    linked = {a.path for a in hand_off.file_system.associations} if hand_off.file_system else set()
    mirrors = platform.storage.lustre and platform.storage.lustre.mirror
    assert linked >= ({"/corpus", "/checkpoints"} if mirrors else set())
    assert hand_off.orchestrator == platform.orchestrator.value


def test_the_hand_off_that_a_file_describes_is_that_of_its_deploy(
    example: Path, synthesized: Synthesized, assemblies: dict[str, Path]
) -> None:
    assert synthesized[example.stem]
    platform = load_platform(example)
    written, described = hand_off_in(assemblies[example.stem]), described_hand_off(platform, load_catalogue())
    assert without_values_of_deploy(written) == without_values_of_deploy(described)
    assert described.cluster.arn.split(":")[2] == ("sagemaker" if platform.orchestrator.is_hyperpod else "eks")


def without_values_of_deploy(hand_off: HandOff) -> dict[str, Any]:
    """Return a hand-off without what only a deploy knows. The keys of such values stay."""
    document: dict[str, Any] = json.loads(hand_off.model_dump_json().replace(hand_off.bucket, "the bucket"))
    del document["image_uri"], document["cluster"]["arn"], document["trainway"]
    document["images"] = sorted(document["images"])
    for name in ("file_system_id", "dns_name", "mount_name"):
        if document["file_system"]:
            del document["file_system"][name]
    if jobs := document["training_jobs"]:
        document["training_jobs"] = [sorted(jobs["subnet_ids"]), sorted(jobs["team_role_arns"])]
    return document


def test_no_role_of_ours_has_a_wildcard_action(example: Path, synthesized: Synthesized) -> None:
    for template in synthesized[example.stem].values():
        for name, policy in resources(template, "AWS::IAM::Policy").items():
            for statement in policy["PolicyDocument"]["Statement"]:
                actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                assert not [action for action in actions if "*" in action], name


@pytest.mark.parametrize("action", ["s3:*", "s3:Get*"])
def test_a_wildcard_action_cannot_be_written(action: str) -> None:
    from stacks.constructs.iam.permissions import Permission

    with pytest.raises(ValueError, match="name every action"):
        Permission((action,), ("arn:aws:s3:::bucket",))


def test_a_wildcard_resource_cannot_be_written_without_its_reason() -> None:
    from stacks.constructs.iam.permissions import Permission

    with pytest.raises(ValueError, match="needs its reason"):
        Permission(("s3:GetObject",), ("arn:aws:s3:::bucket/*",))


def resolve(value: Any) -> str:
    """The text of an intrinsic function, with each fact of the deploy written as the name it is known by."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(resolve(part) for part in parts)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"{name}.{attribute}"
        case {"Ref": name} | {"Fn::ImportValue": name}:
            return str(name)
        case {"Fn::Select": [index, {"Fn::Split": [_, text]}]}:
            return f"{resolve(text)}.{index}"
        case _:
            raise AssertionError(f"unexpected: {value}")


def test_hyperpods_efa_devices_take_no_address(example: Path, synthesized: Synthesized) -> None:
    catalogue = load_catalogue()
    for cluster in resources(synthesized[example.stem]["cluster"], "AWS::SageMaker::Cluster").values():
        for group in cluster["InstanceGroups"]:
            names = group.get("InstanceRequirements", {}).get("InstanceTypes") or [group["InstanceType"]]
            devices = {catalogue[name.removeprefix("ml.")].efa_interfaces for name in names}
            expected = {"InterfaceType": "efa-only"} if devices != {0} else None
            assert group.get("NetworkInterface") == expected
