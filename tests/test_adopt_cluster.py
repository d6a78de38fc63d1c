"""The adoption of an existing EKS cluster, and the withdrawal from it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.changes.emulated_account import bootstrap
from tests.changes.live import Live
from tests.owners_cluster import ADDONS, NAME, addons_of_cluster, described, make_owners_cluster
from tests.owners_vpc import Ids, make_vpc
from tests.people import ADMIN
from tests.synthesis import ROOT, assembly_in, resources, templates_of
from trainway.cli import app
from trainway.diff.destroy import look_at_destroy
from trainway.launch.kubernetes.context import eks_arn
from trainway.launch.platform.hand_off import read_hand_off
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.kubernetes.kubernetes_steps import PublishedVersions, SupportDates, upgrade_plan
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

REGION = "us-west-2"
ASSETS = "cdk-hnb659fds-assets-123456789012-us-west-2"
PLATFORM: dict[str, Any] = {
    "name": "tenant",
    "region": REGION,
    "zones": ["usw2-az2", "usw2-az1"],
    "orchestrator": "eks",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
    "kubernetes": {"admins": [ADMIN]},
}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in started.environment().items():
            patch.setenv(name, value)
        bootstrap(started)
        yield started


@cache
def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def there(emulator: Emulator) -> Iterator[Ids]:
    client.cache_clear()
    ids = make_vpc(client("ec2"))
    make_owners_cluster(emulator, client, ids)
    yield ids
    client.cache_clear()


def adopt(resource: str, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump(PLATFORM))
    command = ["adopt", resource, "--platform", str(file), *arguments]
    ran = CliRunner().invoke(app, command, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    section: dict[str, Any] = yaml.safe_load(ran.stdout)
    return section


@pytest.fixture(scope="module")
def document(there: Ids, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The platform file with both sections as `trainway adopt` prints them."""
    tmp_path = tmp_path_factory.mktemp("adopted")
    network = adopt(there["vpc"], tmp_path)["network"]
    kubernetes = adopt(NAME, tmp_path)["kubernetes"]
    return {
        **PLATFORM,
        "network": {"cidr": "10.21.0.0/16", **network},
        "kubernetes": {"admins": [ADMIN], **kubernetes},
    }


def test_a_cluster_is_described_as_it_is(there: Ids, document: dict[str, Any]) -> None:
    found = client("eks").describe_cluster(name=NAME)["cluster"]
    existing = dict(document["kubernetes"]["existing"])
    assert existing.pop("certificate_authority") == found["certificateAuthority"]["data"]
    assert existing == {
        "name": NAME,
        "arn": f"arn:aws:eks:{REGION}:123456789012:cluster/{NAME}",
        "version": "1.34",
        "vpc_id": there["vpc"],
        "authentication_mode": "API_AND_CONFIG_MAP",
        "private_access": True,
        "endpoint": found["endpoint"],
        "service_cidr": "172.20.0.0/16",
        "security_group": {
            "id": found["resourcesVpcConfig"]["clusterSecurityGroupId"],
            "from_itself": True,
            "to_itself": False,
        },
        "oidc_issuer": found["identity"]["oidc"]["issuer"],
        "addons": ADDONS,
        "cni": {"prefix_delegation": True, "network_policy": True},
        "node_groups": ["theirs"],
    }


def test_only_what_the_cluster_lacks_is_made(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document))
    stacks = templates_of(file)
    made = stacks["control-plane"]["Resources"].values()
    assert not [each for each in made if each["Type"] in ("AWS::EKS::Cluster", "AWS::KMS::Key")]
    addons = resources(stacks["control-plane"], "AWS::EKS::Addon").values()
    assert {each["AddonName"] for each in addons} == {
        "eks-pod-identity-agent", "metrics-server", "eks-node-monitoring-agent", "aws-fsx-csi-driver",
    }  # fmt: skip
    assert {each["ResolveConflicts"] for each in addons} == {"NONE"}, "a copy of the owner's is not overwritten"
    every = [each for stack in stacks.values() for each in stack["Resources"].values()]
    of_eks = [each for each in every if each["Type"].startswith("AWS::EKS::")]
    assert {each["Properties"]["ClusterName"] for each in of_eks} == {NAME}
    (nodes,) = [
        role
        for role in resources(stacks["control-plane"], "AWS::IAM::Role").values()
        if "AmazonEKSWorkerNodePolicy" in json.dumps(role.get("ManagedPolicyArns", []))
    ]
    assert "AmazonEKS_CNI_Policy" in json.dumps(nodes), "the owner's CNI may have no role of its own"
    (rule,) = resources(stacks["control-plane"], "AWS::EC2::SecurityGroupEgress").values()
    group = document["kubernetes"]["existing"]["security_group"]["id"]
    assert (rule["GroupId"], rule["DestinationSecurityGroupId"]) == (group, group)


def test_the_owner_pays_for_the_control_plane(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document))
    told = CliRunner().invoke(app, ["plan", str(file), "--json"], catch_exceptions=False).stdout
    plan = json.loads(told)
    assert plan["endpoint"]["existing_cluster"] == NAME
    assert "the EKS cluster" not in told


@pytest.mark.exhaustive
def test_a_platform_comes_changes_and_goes_and_the_cluster_is_as_before(
    emulator: Emulator, document: dict[str, Any], tmp_path: Path
) -> None:
    before = described(client)
    live = Live(emulator, tmp_path, "tenant")
    assert live.edit(document).refused is None
    during = client("eks").list_nodegroups(clusterName=NAME)["nodegroups"]
    assert len(during) == 3, "the owner's, the system nodes, and train"
    publish_documents(live)
    hand_off = read_hand_off(live.platform)
    assert hand_off.cluster.name == NAME
    assert eks_arn(hand_off) == hand_off.cluster.arn == document["kubernetes"]["existing"]["arn"]
    assert adopt(NAME, tmp_path)["kubernetes"]["existing"] == document["kubernetes"]["existing"]

    grown = copy.deepcopy(document)
    grown["node_groups"].append({"name": "data", "instance_type": "m7i.8xlarge", "count": 2})
    assert not live.edit(grown).lost
    assert len(client("eks").list_nodegroups(clusterName=NAME)["nodegroups"]) == 4
    assert live.edit(document, None).refused is None
    assert len(client("eks").list_nodegroups(clusterName=NAME)["nodegroups"]) == 3

    own = {**document, "kubernetes": {"admins": [ADMIN]}}
    assert "was deployed with the existing cluster shared" in str(live.edit(own).refused)

    with pytest.raises(UsageError, match="its charts and Kubernetes objects are in shared, which stays"):
        look_at_destroy(live.file)
    withdrawn = copy.deepcopy(document)
    withdrawn["kubernetes"]["existing"]["withdraw"] = True
    assert live.edit(withdrawn).refused is None
    assert not [each for stack in look_at_destroy(live.file).stacks for each in stack.resources if each.name == NAME]
    live.destroy()
    assert described(client) == before


def publish_documents(live: Live) -> None:
    """Copy the documents of a deploy to S3, as the CDK's command line does."""
    for file in assembly_in(live.platform).glob("asset.*.json"):
        client("s3").put_object(Bucket=ASSETS, Key=file.name.removeprefix("asset."), Body=file.read_bytes())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"authentication_mode": "CONFIG_MAP"}, "allows no access entries"),
        ({"private_access": False}, "does not answer inside the VPC"),
        ({"vpc_id": "vpc-0123456789abcdef0"}, "the cluster is in vpc-0123456789abcdef0"),
        ({"arn": f"arn:aws:eks:eu-west-1:123456789012:cluster/{NAME}"}, "it is the ARN of shared in eu-west-1"),
        ({"version": "1.20"}, "EKS does not support Kubernetes 1.20"),
        ({"cni": {}}, "take addresses by prefixes"),
        ({"addons": {"vpc-cni": "v1.21.1-eksbuild.1", "coredns": "self-managed"}}, "no EKS add-on kube-proxy"),
        ({"addons": {**ADDONS, "vpc-cni": "self-managed"}}, "its settings cannot be read from EKS"),
        ({"addons": {**ADDONS, "coredns": "newest"}}, "it is not the version of an EKS add-on"),
    ],
)  # fmt: skip
def test_a_cluster_that_does_not_suit_is_refused(
    document: dict[str, Any], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    wrong = copy.deepcopy(document)
    wrong["kubernetes"]["existing"].update(change)
    assert said in refusal(wrong, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "1.34"}, "it is a setting of the cluster shared"),
        ({"endpoint": "private"}, "it is a setting of the cluster shared"),
        ({"control_plane": {"tier": "tier-xl"}}, "it is a setting of the cluster shared"),
    ],
)
def test_settings_of_the_cluster_are_refused(
    document: dict[str, Any], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    wrong = {**document, "kubernetes": {**document["kubernetes"], **change}}
    assert said in refusal(wrong, tmp_path)


def refusal(document: dict[str, Any], tmp_path: Path) -> str:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(SpecError) as caught:
        load_platform(file)
    return str(caught.value)


def test_what_else_cannot_be_used_with_it_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    alone = {**document, "network": {"cidr": "10.21.0.0/16"}}
    assert "the platform would create a VPC of its own" in refusal(alone, tmp_path)
    assert "works in a cluster of its own" in refusal({**document, "orchestrator": "hyperpod-eks"}, tmp_path)
    teams = {**copy.deepcopy(document), "teams": [{"name": "research"}]}
    teams["kubernetes"]["existing"]["cni"]["network_policy"] = False
    assert "the cluster enforces none" in refusal(teams, tmp_path)
    teams["kubernetes"]["existing"]["cni"]["network_policy"] = True
    teams["kubernetes"]["existing"]["addons"]["vpc-cni"] = "v1.19.0-eksbuild.1"
    assert "network policies of teams need version 1.21" in refusal(teams, tmp_path)
    volumes = {**copy.deepcopy(document), "storage": {"lustre": {"dynamic_volumes": True}}}
    volumes["kubernetes"]["existing"]["addons"]["aws-fsx-csi-driver"] = "v1.7.0-eksbuild.1"
    assert "may create no file systems" in refusal(volumes, tmp_path)
    devices = copy.deepcopy(document)
    devices["kubernetes"] |= {"gpu_devices": "dra"}
    devices["kubernetes"]["existing"]["device_plugins"] = ["nvidia"]
    assert "two programs would both allocate" in refusal(devices, tmp_path)


def test_a_device_plugin_of_the_owner_is_not_installed_again(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document))
    without = copy.deepcopy(document)
    without["kubernetes"]["existing"]["device_plugins"] = ["nvidia", "efa"]
    usual = set(chart_names(load_platform(file), load_catalogue()))
    file.write_text(yaml.safe_dump(without))
    left = set(chart_names(load_platform(file), load_catalogue()))
    assert usual - left == {"nvidia-device-plugin", "aws-efa-k8s-device-plugin"}


def test_the_page_shows_what_is_printed(document: dict[str, Any], tmp_path: Path) -> None:
    """A file with the section of the page is good, and the section has the keys of a real one."""
    page = (ROOT / "docs" / "existing-cluster.md").read_text()
    (shown,) = re.findall(r"```console\n.*?\n(kubernetes:\n.*?)```", page, re.DOTALL)
    section = yaml.safe_load(shown)["kubernetes"]["existing"]
    assert section.keys() == document["kubernetes"]["existing"].keys() - {"oidc_issuer"}
    network = copy.deepcopy(document["network"])
    network["existing"]["vpc_id"] = section["vpc_id"]
    file = tmp_path / "platform.yaml"
    file.write_text(
        yaml.safe_dump({**document, "network": network, "kubernetes": {"admins": [ADMIN], "existing": section}})
    )
    assert load_platform(file).cluster_name == "shared"


def test_the_page_names_the_keys_that_a_failed_deploy_names() -> None:
    page = (ROOT / "docs" / "existing-cluster.md").read_text()
    script = (ROOT / "delivery" / "adopted.sh").read_text()
    named = re.findall(r"\) echo \"(\w+: \w+)\"", script)
    left_out = {each for each in named if not each.endswith("plugin")}
    assert len(left_out) == 6
    assert all(f"`{each}`" in page for each in left_out)


@pytest.mark.usefixtures("there")
def test_the_owner_upgrades_the_control_plane(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document))
    published = PublishedVersions(versions={"1.35": SupportDates(None, None)}, releases={}, addons={})
    plan = upgrade_plan(load_platform(file), load_catalogue(), published, datetime.now(UTC))
    assert (plan.version, plan.following) == ("1.34", "1.35")
    assert "trainway adopt shared" in plan.steps[1].do


@pytest.mark.usefixtures("there")
def test_a_cluster_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the EKS cluster absent in us-west-2 cannot be adopted"):
        adopt("absent", tmp_path)


@pytest.mark.usefixtures("there")
def test_settings_that_prefixes_are_off_are_read(emulator: Emulator, tmp_path: Path) -> None:
    emulator.hold(addons=addons_of_cluster({"env": {"ENABLE_PREFIX_DELEGATION": "false"}}))
    try:
        assert "cni" not in adopt(NAME, tmp_path)["kubernetes"]["existing"]
    finally:
        emulator.hold(addons=addons_of_cluster())
