"""What a HyperPod cluster can be asked for, switch by switch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, get_args

import botocore
import pytest
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from tests.anywhere import ANYWHERE
from tests.stacks.hyperpods import cluster, hyperpod, statements, write
from tests.synthesis import Template, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError
from trainway.spec.sections.hyperpod import Patching

TEAMS = [
    {"name": "research", "guarantee": {"p5.48xlarge": 2}, "priority": "high"},
    {"name": "product", "guarantee": {"p5.48xlarge": 1, "m7i.8xlarge": 1}, "borrow": False},
    {"name": "guests"},
]
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"
# A synthesis takes a second of CPU time, so tests share platforms.
EVERYTHING: dict[str, Any] = {
    "hyperpod": {
        "autoscaling": True,
        "volume_key": KEY,
        "training_operator": True,
        "spaces": True,
        "observability": True,
    },
    "teams": TEAMS,
    "iam": {"permissions_boundary": BOUNDARY},
}
GOVERNED: dict[str, Any] = {"hyperpod": {"autoscaling": True}, "teams": TEAMS}
ROLE = "arn:aws:iam::111122223333:role/{}".format
PEOPLE: dict[str, Any] = {
    "teams": [
        {"name": "research", "members": [ROLE("Ada"), ROLE("Lead")]},
        {"name": "product", "members": [ROLE("Lead")]},
    ],
    "kubernetes": {"admins": [ROLE("Lead"), ROLE("Ops")], "viewers": [ROLE("Audit"), ROLE("Ada")]},
    "hyperpod": {"observability": True},
    # These nodes have no EFA device.
    "node_groups": [{"name": "data", "instance_type": "m7i.8xlarge", "count": 1}],
}
ADMINS = [ROLE("Ada"), ROLE("Bob"), ROLE("Cyd")]
# This file does not list Ada.
OBSERVED: dict[str, Any] = {
    "kubernetes": {"admins": ADMINS[1:]},
    "hyperpod": {"observability": True, "node_recovery": False},
}
UNGOVERNED: dict[str, Any] = {
    "teams": TEAMS,
    "kubernetes": {"admins": ADMINS},
    "hyperpod": {"task_governance": False},
}


def test_without_a_section_it_recovers_its_nodes_and_checks_them(tmp_path: Path) -> None:
    made = hyperpod(cluster(tmp_path))
    assert made["NodeRecovery"] == "Automatic"
    assert made["NodeProvisioningMode"] == "Continuous"
    data, train = made["InstanceGroups"]
    assert train["OnStartDeepHealthChecks"] == ["InstanceStress", "InstanceConnectivity"]
    assert "OnStartDeepHealthChecks" not in data
    assert not {"AutoScaling", "ClusterRole", "TieredStorageConfig"} & set(made)
    assert "ScheduledUpdateConfig" not in train


@pytest.mark.parametrize(
    ("platform", "property", "expected"),
    [
        (OBSERVED, "NodeRecovery", "None"),
        (EVERYTHING, "AutoScaling", {"Mode": "Enable", "AutoScalerType": "Karpenter"}),
    ],
    ids=["node_recovery", "autoscaling"],
)
def test_a_switch_is_a_property_of_the_cluster(
    tmp_path: Path, platform: dict[str, Any], property: str, expected: Any
) -> None:
    assert hyperpod(cluster(tmp_path, **platform))[property] == expected


def test_the_autoscaler_acts_in_a_role_of_its_own(tmp_path: Path) -> None:
    template = cluster(tmp_path, **GOVERNED)
    role = hyperpod(template)["ClusterRole"]["Fn::GetAtt"][0]
    (trust,) = resources(template, "AWS::IAM::Role")[role]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "hyperpod.sagemaker.amazonaws.com"}
    waits = template["Resources"]["HyperPod"]["DependsOn"]
    assert any(name.startswith("AutoscalerRoleDefaultPolicy") for name in waits)


@pytest.mark.parametrize(
    "section",
    [
        {"autoscaling": True},
        {"training_operator": True},
        {"task_governance": True},
        {"observability": True},
        {"spaces": True},
    ],
)
def test_slurm_is_not_asked_for_what_only_kubernetes_has(tmp_path: Path, section: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="HyperPod has it on EKS only"):
        load_platform(write(tmp_path, orchestrator="hyperpod-slurm", hyperpod=section))


def test_a_key_encrypts_both_volumes_of_every_node(tmp_path: Path) -> None:
    for group in hyperpod(cluster(tmp_path, **EVERYTHING))["InstanceGroups"]:
        # The service sizes the root volume, and refuses to be told.
        assert [storage["EbsVolumeConfig"] for storage in group["InstanceStorageConfigs"]] == [
            {"VolumeSizeInGB": 500, "VolumeKmsKeyId": KEY},
            {"RootVolume": True, "VolumeKmsKeyId": KEY},
        ]
    for group in hyperpod(cluster(tmp_path))["InstanceGroups"]:
        assert group["InstanceStorageConfigs"] == [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]


@pytest.mark.parametrize("role", ["ExecutionRole", "AutoscalerRole"])
def test_whoever_makes_nodes_hands_their_key_on_to_aws_and_to_nobody_else(tmp_path: Path, role: str) -> None:
    template = cluster(tmp_path, **EVERYTHING)
    through = {"kms:ViaService": {"Fn::Join": ["", ["sagemaker.", {"Ref": "AWS::Region"}, ".amazonaws.com"]]}}
    (handing_on,) = statements(template, role, "kms:CreateGrant")
    assert handing_on["Resource"] == KEY
    assert handing_on["Condition"]["StringEquals"] == through
    assert handing_on["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    (looking,) = statements(template, role, "kms:DescribeKey")
    assert (looking["Resource"], looking["Condition"]) == (KEY, {"StringEquals": through})
    # Karpenter's role is told the operations, too, that it may hand on.
    operations = handing_on["Condition"].get("ForAllValues:StringEquals", {}).get("kms:GrantOperations", [])
    assert ("GenerateDataKeyWithoutPlaintext" in operations) == (role == "AutoscalerRole")
    without = cluster(tmp_path, **GOVERNED)
    assert not statements(without, role, "kms:CreateGrant")


def test_plain_eks_has_no_hyperpod_section(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the orchestrator is eks, which is not HyperPod"):
        load_platform(write(tmp_path, orchestrator="eks", hyperpod={"node_recovery": True}))


# --- add-ons


def addons(template: Template) -> dict[str, list[str]]:
    """What each add-on waits for, by the add-on's name."""
    return {
        resource["Properties"]["AddonName"]: resource.get("DependsOn", [])
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::EKS::Addon"
    }


def test_the_training_operator_waits_for_cert_manager_and_has_its_role(tmp_path: Path) -> None:
    template = cluster(tmp_path, **EVERYTHING)
    found = addons(template)
    assert found["amazon-sagemaker-hyperpod-training-operator"] == ["CertManager"]
    identities = resources(template, "AWS::EKS::PodIdentityAssociation").values()
    assert ("aws-hyperpod", "hp-training-operator-controller-manager") in [
        (each["Namespace"], each["ServiceAccount"]) for each in identities
    ]


def addon_named(template: Template, name: str) -> dict[str, Any]:
    (found,) = [each for each in resources(template, "AWS::EKS::Addon").values() if each["AddonName"] == name]
    return found


def test_spaces_have_a_controller_with_its_role_and_a_driver_of_volumes(tmp_path: Path) -> None:
    template = cluster(tmp_path, **EVERYTHING)
    waits = addons(template)
    assert {"CertManager", "EbsDriver", "HyperPod"} <= set(waits["amazon-sagemaker-spaces"])
    for name, account, policy in (
        ("amazon-sagemaker-spaces", "jupyter-k8s-controller-manager", "AmazonSageMakerSpacesControllerPolicy"),
        ("aws-ebs-csi-driver", "ebs-csi-controller-sa", "AmazonEBSCSIDriverPolicyV2"),
    ):
        (identity,) = addon_named(template, name)["PodIdentityAssociations"]
        assert identity["ServiceAccount"] == account
        role = resources(template, "AWS::IAM::Role")[identity["RoleArn"]["Fn::GetAtt"][0]]
        assert str(role["ManagedPolicyArns"]).count(f":iam::aws:policy/{policy}") == 1
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"] == account
    (attaching,) = statements(template, "EbsDriverRole", "sagemaker:AttachClusterNodeVolume")
    assert attaching["Resource"] == {"Fn::GetAtt": ["HyperPod", "ClusterArn"]}


def test_vs_code_connects_to_a_space_through_an_agent_that_may_nothing_else(tmp_path: Path) -> None:
    template = cluster(tmp_path, **EVERYTHING)
    (role,) = [id for id in resources(template, "AWS::IAM::Role") if id.startswith("SpacesAgentRole")]
    said = addon_named(template, "amazon-sagemaker-spaces")["ConfigurationValues"]
    before, name, after = said["Fn::Join"][1]
    assert name == {"Ref": role}
    assert json.loads(f"{before}NAME{after}") == {
        "jupyter-k8s": {"workspacePodWatching": {"enable": True}},
        "jupyter-k8s-aws-hyperpod": {"remoteAccess": {"enabled": True, "ssmManagedNodeRole": "NAME"}},
    }
    # The controller's policy passes roles with this beginning, and Systems Manager takes a name of 64 characters.
    named = resources(template, "AWS::IAM::Role")[role]["RoleName"]
    assert named.startswith("sagemaker-space-") and len(named) <= 64
    allowed = [statement["Action"] for statement in statements(template, role)]
    assert allowed == [
        "ssm:UpdateInstanceInformation",
        [f"ssmmessages:{verb}{kind}Channel" for verb in ("Create", "Open") for kind in ("Control", "Data")],
    ]


def test_spaces_are_refused_where_their_images_cannot_be_fetched(tmp_path: Path) -> None:
    file = write(tmp_path, network="closed", hyperpod={"spaces": True})
    with pytest.raises(SpecError, match=r"public\.ecr\.aws, which a closed network does not reach"):
        load_platform(file)


OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"


def collected(template: Template) -> tuple[dict[str, Any], str]:
    """The observability add-on's properties, and its configuration with what only the deploy knows left in angles."""
    (addon,) = [each for each in resources(template, "AWS::EKS::Addon").values() if each["AddonName"] == OBSERVABILITY]
    parts = addon["ConfigurationValues"]["Fn::Join"][1]
    known = (
        part if isinstance(part, str) else f"<{'.'.join(part.get('Fn::GetAtt', [part.get('Ref')]))}>" for part in parts
    )
    return addon, "".join(known)


def test_observability_has_a_workspace_and_a_role_that_writes_to_it_alone(tmp_path: Path) -> None:
    template = cluster(tmp_path, **OBSERVED)
    ((workspace, _),) = resources(template, "AWS::APS::Workspace").items()
    addon, text = collected(template)
    assert json.loads(text)["ampWorkspace"] == {
        "prometheusEndpoint": "https://aps-workspaces.<AWS::Region>.<AWS::URLSuffix>"
        f"/workspaces/<{workspace}.WorkspaceId>",
        "arn": f"<{workspace}.Arn>",
    }
    (identity,) = addon["PodIdentityAssociations"]
    assert identity["ServiceAccount"] == "hyperpod-observability-operator-otel-collector"
    role = identity["RoleArn"]["Fn::GetAtt"][0]
    assert json.loads(text)["logging"] == {"enabled": False}
    (writing,) = statements(template, role)
    assert (writing["Action"], writing["Resource"]) == ("aps:RemoteWrite", {"Fn::GetAtt": [workspace, "Arn"]})
    waits = addons(template)[OBSERVABILITY]
    assert "HyperPod" in waits
    assert any(name.startswith("ObservabilityRoleDefaultPolicy") for name in waits)


def test_observability_collects_what_the_platform_has(tmp_path: Path) -> None:
    def levels(**changes: Any) -> dict[str, str]:
        _, text = collected(cluster(tmp_path, **changes))
        return {name: provider["level"] for name, provider in json.loads(text)["metricsProvider"].items()}

    assert levels(**OBSERVED)["networkMetrics"] == "ADVANCED"
    assert levels(**OBSERVED)["taskGovernanceMetrics"] == "DISABLED"
    assert levels(**EVERYTHING)["taskGovernanceMetrics"] == "ADVANCED"
    assert levels(**PEOPLE)["networkMetrics"] == "DISABLED"


def test_without_observability_there_is_no_workspace(tmp_path: Path) -> None:
    template = cluster(tmp_path, observability={"metrics": "none"})
    assert OBSERVABILITY not in addons(template)
    assert not resources(template, "AWS::APS::Workspace")


@pytest.mark.parametrize(
    "groups",
    [
        [{"name": "train", "instance_type": "p5.48xlarge", "count": 0, "max_count": 8}],
        [{"name": "data", "instance_type": "m7i.2xlarge", "count": 4}],
    ],
    ids=["no node yet", "too small"],
)
def test_observability_needs_a_node_that_carries_it(tmp_path: Path, groups: list[dict[str, Any]]) -> None:
    file = write(tmp_path, node_groups=groups, hyperpod={"observability": True})
    with pytest.raises(SpecError, match="a node with 16 vCPUs or more, and the deploy makes none"):
        load_platform(file)


def test_teams_are_governed_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    name = "amazon-sagemaker-hyperpod-taskgovernance"
    assert name not in addons(cluster(tmp_path))
    assert name in addons(cluster(tmp_path, **GOVERNED))
    assert name not in addons(cluster(tmp_path, **UNGOVERNED))


def test_each_team_has_its_guarantee_and_borrows_at_most_the_rest(tmp_path: Path) -> None:
    template = cluster(tmp_path, **GOVERNED)
    quotas = {
        quota["ComputeQuotaTarget"]["TeamName"]: quota
        for quota in resources(template, "AWS::SageMaker::ComputeQuota").values()
    }
    research, product, guests = (quotas[team]["ComputeQuotaConfig"] for team in ("research", "product", "guests"))
    assert research["ComputeQuotaResources"] == [{"InstanceType": "ml.p5.48xlarge", "Count": 2}]
    assert research["ResourceSharingConfig"]["AbsoluteBorrowLimits"] == [
        {"InstanceType": "ml.p5.48xlarge", "Count": 6},
        {"InstanceType": "ml.m7i.8xlarge", "Count": 2},
    ]
    assert product["ResourceSharingConfig"] == {"Strategy": "Lend"}
    assert guests["ComputeQuotaResources"] == []
    assert guests["ResourceSharingConfig"]["AbsoluteBorrowLimits"][0]["Count"] == 8
    weights = {team: quota["ComputeQuotaTarget"]["FairShareWeight"] for team, quota in quotas.items()}
    assert weights["research"] > weights["product"] == weights["guests"]


def test_what_the_service_is_asked_for_is_what_its_api_takes(tmp_path: Path) -> None:
    """CloudFormation passes these properties on to CreateComputeQuota and CreateClusterSchedulerConfig."""
    data = Path(botocore.__file__).parent / "data" / "sagemaker" / "2017-07-24" / "service-2.json.gz"
    model = ServiceModel(json.loads(gzip.decompress(data.read_bytes())), "sagemaker")
    template = cluster(tmp_path, **GOVERNED)
    arn = "arn:aws:sagemaker:us-east-1:111122223333:cluster/abcdefghijkl"
    for kind, operation in (
        ("AWS::SageMaker::ComputeQuota", "CreateComputeQuota"),
        ("AWS::SageMaker::ClusterSchedulerConfig", "CreateClusterSchedulerConfig"),
    ):
        found = resources(template, kind).values()
        assert found
        for properties in found:
            shape = model.operation_model(operation).input_shape
            assert shape
            report = ParamValidator().validate({**properties, "ClusterArn": arn}, shape)
            assert not report.has_errors(), report.generate_report()


def test_quotas_and_policy_wait_for_the_addon_and_the_addon_for_the_cluster(tmp_path: Path) -> None:
    template = cluster(tmp_path, **GOVERNED)
    assert "HyperPod" in addons(template)["amazon-sagemaker-hyperpod-taskgovernance"]
    for resource in template["Resources"].values():
        if resource["Type"] in ("AWS::SageMaker::ComputeQuota", "AWS::SageMaker::ClusterSchedulerConfig"):
            assert resource["DependsOn"] == ["TaskGovernance"]


def test_the_policy_is_left_out_where_cloudformation_does_not_have_it(tmp_path: Path) -> None:
    elsewhere = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "teams": TEAMS}
    template = cluster(tmp_path, **elsewhere)
    assert resources(template, "AWS::SageMaker::ComputeQuota")
    assert not resources(template, "AWS::SageMaker::ClusterSchedulerConfig")


# --- people, and what bounds every role


def test_everybody_has_one_access_entry_with_all_their_parts(tmp_path: Path) -> None:
    template = cluster(tmp_path, **PEOPLE)
    entries = {
        entry["PrincipalArn"].rpartition("/")[2]: (bool(entry.get("AccessPolicies")), entry.get("KubernetesGroups", []))
        for entry in resources(template, "AWS::EKS::AccessEntry").values()
        if isinstance(entry["PrincipalArn"], str)
    }
    assert entries == {
        "Lead": (True, ["trainway:research", "trainway:product"]),
        "Ops": (True, []),
        "Audit": (False, ["trainway:viewers"]),
        "Ada": (False, ["trainway:viewers", "trainway:research"]),
    }


def test_somebody_who_leaves_moves_nobody_elses_entry(tmp_path: Path) -> None:
    before, after = (
        {
            entry["PrincipalArn"]: name
            for name, entry in resources(cluster(tmp_path, **changes), "AWS::EKS::AccessEntry").items()
            if isinstance(entry["PrincipalArn"], str)
        }
        for changes in (UNGOVERNED, OBSERVED)
    )
    assert after == {principal: name for principal, name in before.items() if principal in ADMINS[1:]}


@pytest.mark.parametrize(
    ("orchestrator", "changes"),
    [
        ("hyperpod-eks", EVERYTHING),
        pytest.param("eks", {}, marks=pytest.mark.exhaustive),
        pytest.param("hyperpod-slurm", {}, marks=pytest.mark.exhaustive),
    ],
    ids=["hyperpod-eks", "eks", "hyperpod-slurm"],
)
def test_a_boundary_bounds_every_role(tmp_path: Path, orchestrator: str, changes: dict[str, Any]) -> None:
    file = write(tmp_path, orchestrator=orchestrator, **{**changes, "iam": {"permissions_boundary": BOUNDARY}})
    roles = [
        role for template in templates_of(file).values() for role in resources(template, "AWS::IAM::Role").values()
    ]
    assert len(roles) >= 4
    assert {role["PermissionsBoundary"] for role in roles} == {BOUNDARY}


@pytest.mark.exhaustive
def test_every_type_that_hyperpod_offers_can_be_guaranteed(tmp_path: Path) -> None:
    offered = [instance.name for instance in load_catalogue().values() if instance.hyperpod_name][:8]
    groups = [{"name": f"g{n}", "instance_type": name, "count": 1} for n, name in enumerate(offered)]
    teams = [{"name": "all", "guarantee": dict.fromkeys(offered, 1)}]
    template = cluster(tmp_path, node_groups=groups, teams=teams, accept=ANYWHERE)
    (quota,) = resources(template, "AWS::SageMaker::ComputeQuota").values()
    assert len(quota["ComputeQuotaConfig"]["ComputeQuotaResources"]) == len(offered)


def test_every_strategy_of_cloudformation_can_be_written() -> None:
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    from stacks.constructs.hyperpod.hyperpod_patching import STRATEGIES

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-west-2", "AWS::SageMaker::Cluster").schema
    taken = schema["definitions"]["AutoPatchConfig"]["properties"]["PatchingStrategy"]["enum"]
    assert set(STRATEGIES.values()) == set(taken)
    assert set(STRATEGIES) == set(get_args(get_args(Patching.model_fields["strategy"].annotation)[0]))
