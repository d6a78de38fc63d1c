"""HyperPod on Slurm: how its nodes come, where its accounting is, and how its teams get there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.stacks.hyperpods import cluster, hyperpod, statements, write
from tests.synthesis import make_app, resources, templates
from trainway.spec.endpoints import interface_endpoints
from trainway.spec.loader import load_platform

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:slurm-AbCdEf"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
DATABASE = {"endpoint": "slurm.cluster-abc.us-east-1.rds.amazonaws.com", "secret": SECRET}


def slurm(**changes: Any) -> dict[str, Any]:
    return {"orchestrator": "hyperpod-slurm", **changes}


def test_nodes_come_one_by_one_and_slurm_conf_stays_ours(tmp_path: Path) -> None:
    made = hyperpod(cluster(tmp_path, **slurm()))
    assert made["NodeProvisioningMode"] == "Continuous"
    # A strategy is refused with it, and it merges.
    assert made["Orchestrator"] == {"Slurm": {}}


def test_a_group_may_be_given_up_that_has_too_few_nodes(tmp_path: Path) -> None:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "min_count": 2}
    groups = hyperpod(cluster(tmp_path, **slurm(node_groups=[group])))["InstanceGroups"]
    assert {each["InstanceGroupName"]: each.get("MinInstanceCount") for each in groups} == {
        "controller": None,
        "login": None,
        "train": 2,
    }


def test_the_accounting_database_is_the_clusters(tmp_path: Path) -> None:
    made = hyperpod(cluster(tmp_path, **slurm(slurm={"accounting_database": DATABASE})))
    assert made["Orchestrator"]["Slurm"]["AccountingDatabase"] == {
        "Endpoint": DATABASE["endpoint"],
        "Port": 3306,
        "SecretArn": SECRET,
    }
    named = {**DATABASE, "port": 3307, "name": "slurm_atlas"}
    made = hyperpod(cluster(tmp_path, **slurm(slurm={"accounting_database": named})))
    assert made["Orchestrator"]["Slurm"]["AccountingDatabase"]["Port"] == 3307
    assert made["Orchestrator"]["Slurm"]["AccountingDatabase"]["Name"] == "slurm_atlas"


def test_only_the_controller_reads_its_password(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm(slurm={"accounting_database": DATABASE}))
    (reads,) = statements(template, "ControllerRole", "secretsmanager:GetSecretValue")
    assert reads["Resource"] == SECRET
    assert not statements(template, "ExecutionRole", "secretsmanager:GetSecretValue")
    roles = {group["InstanceGroupName"]: group["ExecutionRole"] for group in hyperpod(template)["InstanceGroups"]}
    with_secret = {name for name, role in roles.items() if role["Fn::GetAtt"][0].startswith("ControllerRole")}
    assert with_secret == {"controller"}
    # But for the secret, it may do what every node may.
    assert len(statements(template, "ControllerRole")) == len(statements(template, "ExecutionRole")) + 1


def test_a_closed_network_lets_the_controller_ask_for_the_password(tmp_path: Path) -> None:
    asks, keeps = slurm(network="closed", slurm={"accounting_database": DATABASE}), slurm(network="closed")
    first, second = (set(interface_endpoints(load_platform(write(tmp_path, **each)))) for each in (asks, keeps))
    assert first - second == {"secretsmanager"}


def test_a_key_encrypts_both_volumes_of_every_node(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm(hyperpod={"volume_key": KEY}))
    for group in hyperpod(template)["InstanceGroups"]:
        volumes = [each["EbsVolumeConfig"] for each in group["InstanceStorageConfigs"] if "EbsVolumeConfig" in each]
        assert [volume["VolumeKmsKeyId"] for volume in volumes] == [KEY, KEY]
    assert statements(template, "ExecutionRole", "kms:CreateGrant")


def test_a_change_of_teams_is_delivered_and_changes_neither_scripts_nor_cluster(tmp_path: Path) -> None:
    before, after = (
        synthesize(tmp_path / name, users) for name, users in (("before", ["ada"]), ("after", ["ada", "grace"]))
    )
    documents = [json.loads(made["document"].read_text()) for made in (before, after)]
    assert [each["accounts"][0]["users"] for each in documents] == [["ada"], ["ada", "grace"]]
    # The stage runs again, because its wait condition is another.
    assert set(before["waits"]).isdisjoint(after["waits"])
    assert before["cluster"] == after["cluster"]
    assert before["variables"] == after["variables"]


def synthesize(directory: Path, users: list[str]) -> dict[str, Any]:
    directory.mkdir()
    file = write(directory, **slurm(teams=[{"name": "research", "guarantee": {"p5.48xlarge": 1}, "users": users}]))
    template = templates(make_app(file, directory / "out"))["cluster"]
    (project,) = resources(template, "AWS::CodeBuild::Project").values()
    return {
        "document": directory / "out/bundles/cluster/manifests/slurm-accounts.json",
        "cluster": hyperpod(template),
        "waits": resources(template, "AWS::CloudFormation::WaitCondition"),
        "variables": {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]},
    }


def test_the_teams_lie_below_the_scripts_prefix_which_nodes_read_and_the_stage_writes(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm())
    (project,) = resources(template, "AWS::CodeBuild::Project").values()
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    bucket = variables["SLURM_ACCOUNTS_S3_URI"]["Fn::Join"][1][1]
    assert variables["SLURM_ACCOUNTS_S3_URI"] == {
        "Fn::Join": ["", ["s3://", bucket, "/lifecycle_scripts/slurm-accounts.json"]]
    }
    assert variables["SLURM_ACCOUNTS_REGION"] == "us-east-1"
    for role in ("ExecutionRole", "ScriptsStage"):
        reads = statements(template, role, "s3:GetObject")
        assert any("/lifecycle_scripts/*" in json.dumps(each["Resource"]) for each in reads), role
