"""HyperPod on Slurm: how its nodes come, where its accounting is, and how its teams get there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.stacks.hyperpods import cluster, hyperpod, statements, write
from tests.synthesis import assembly_in, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.network.endpoints import interface_endpoints

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:slurm-AbCdEf"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LDAP_SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:ldap-AbCdEf"
DIRECTORY = {
    "uri": "ldaps://ldap.example.com",
    "base": "dc=example,dc=com",
    "reader": {"name": "cn=reader,dc=example,dc=com", "secret": LDAP_SECRET},
}
DATABASE = {"endpoint": "slurm.cluster-abc.us-east-1.rds.amazonaws.com", "secret": SECRET}
SETTINGS: dict[str, Any] = {
    "login_needs_job": False,
    "job_walls": True,
    "private_tmp": False,
    "health_checks": False,
    "settings": {"MessageTimeout": "30"},
    "accounting_database": DATABASE,
}
# A synthesis takes a second of CPU time, so tests share these platforms and the one without the features.
ACCOUNTED: dict[str, Any] = {
    "slurm": {**SETTINGS, "exporters": False},
    "hyperpod": {"volume_key": KEY},
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4, "min_count": 2}],
}
WITH_DIRECTORY: dict[str, Any] = {
    "slurm": {"directory": DIRECTORY, "accounting_database": {**DATABASE, "port": 3307, "name": "slurm_atlas"}}
}


def slurm(**changes: Any) -> dict[str, Any]:
    return {"orchestrator": "hyperpod-slurm", **changes}


def test_nodes_come_one_by_one_and_slurm_conf_stays_ours(tmp_path: Path) -> None:
    made = hyperpod(cluster(tmp_path, **slurm()))
    assert made["NodeProvisioningMode"] == "Continuous"
    # A strategy is refused with it, and it merges.
    assert made["Orchestrator"] == {"Slurm": {}}


def test_a_group_may_be_given_up_that_has_too_few_nodes(tmp_path: Path) -> None:
    groups = hyperpod(cluster(tmp_path, **slurm(**ACCOUNTED)))["InstanceGroups"]
    assert {each["InstanceGroupName"]: each.get("MinInstanceCount") for each in groups} == {
        "controller": None,
        "login": None,
        "train": 2,
    }


def test_the_accounting_database_is_the_clusters(tmp_path: Path) -> None:
    made = hyperpod(cluster(tmp_path, **slurm(**ACCOUNTED)))
    assert made["Orchestrator"]["Slurm"]["AccountingDatabase"] == {
        "Endpoint": DATABASE["endpoint"],
        "Port": 3306,
        "SecretArn": SECRET,
    }
    made = hyperpod(cluster(tmp_path, **slurm(**WITH_DIRECTORY)))
    assert made["Orchestrator"]["Slurm"]["AccountingDatabase"]["Port"] == 3307
    assert made["Orchestrator"]["Slurm"]["AccountingDatabase"]["Name"] == "slurm_atlas"


def test_only_the_controller_reads_its_password(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm(**ACCOUNTED))
    (reads,) = statements(template, "ControllerRole", "secretsmanager:GetSecretValue")
    assert reads["Resource"] == SECRET
    assert not statements(template, "ExecutionRole", "secretsmanager:GetSecretValue")
    roles = {group["InstanceGroupName"]: group["ExecutionRole"] for group in hyperpod(template)["InstanceGroups"]}
    with_secret = {name for name, role in roles.items() if role["Fn::GetAtt"][0].startswith("ControllerRole")}
    assert with_secret == {"controller"}
    # But for the secret, it may do what every node may.
    assert len(statements(template, "ControllerRole")) == len(statements(template, "ExecutionRole")) + 1


def endpoints(tmp_path: Path, **platform: Any) -> tuple[str, ...]:
    return interface_endpoints(load_platform(write(tmp_path, **platform)), load_catalogue())


def test_a_closed_network_lets_the_controller_ask_for_the_password(tmp_path: Path) -> None:
    asks, keeps = slurm(network="closed", slurm={"accounting_database": DATABASE}), slurm(network="closed")
    first, second = (set(endpoints(tmp_path, **each)) for each in (asks, keeps))
    assert first - second == {"secretsmanager"}


def test_every_node_reads_the_directorys_password_and_nobody_passes_it_on(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm(**WITH_DIRECTORY))
    for role, secrets in (("ExecutionRole", LDAP_SECRET), ("ControllerRole", [LDAP_SECRET, SECRET])):
        (reads,) = statements(template, role, "secretsmanager:GetSecretValue")
        assert reads["Resource"] == secrets
    nodes = json.loads((assembly_in(tmp_path / "platform.yaml") / "bundles/cluster/nodes/parameters.json").read_text())
    assert nodes["directory"] == {
        "uri": "ldaps://ldap.example.com",
        "base": "dc=example,dc=com",
        "kind": "rfc2307bis",
        "reader": "cn=reader,dc=example,dc=com",
        "secret": LDAP_SECRET,
        "homes": "/fsx/users",
    }


def test_a_directory_without_a_reader_needs_no_secret(tmp_path: Path) -> None:
    open_to_all = {key: value for key, value in DIRECTORY.items() if key != "reader"}
    asks, open_, keeps = (
        set(endpoints(tmp_path, **slurm(network="closed", slurm=each)))
        for each in ({"directory": DIRECTORY}, {"directory": open_to_all}, {})
    )
    assert (asks - keeps, open_ - keeps) == ({"secretsmanager"}, set())


def test_a_key_encrypts_both_volumes_of_every_node(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm(**ACCOUNTED))
    for group in hyperpod(template)["InstanceGroups"]:
        volumes = [each["EbsVolumeConfig"] for each in group["InstanceStorageConfigs"] if "EbsVolumeConfig" in each]
        assert [volume["VolumeKmsKeyId"] for volume in volumes] == [KEY, KEY]
    assert statements(template, "ExecutionRole", "kms:CreateGrant")


TEAM = {"name": "research", "guarantee": {"p5.48xlarge": 1}}
ADA, GRACE = ({"name": name, "uid": uid} for name, uid in (("ada", 2001), ("grace", 2002)))


def test_a_change_of_teams_is_delivered_and_changes_neither_scripts_nor_cluster(tmp_path: Path) -> None:
    before, after = (
        synthesize(tmp_path / name, teams=[{**TEAM, "users": users}], slurm={"users": [ADA, GRACE]})
        for name, users in (("before", ["ada"]), ("after", ["ada", "grace"]))
    )
    documents = [json.loads((made["manifests"] / "slurm-accounts.json").read_text()) for made in (before, after)]
    assert [each["accounts"][0]["users"] for each in documents] == [["ada"], ["ada", "grace"]]
    reaches_what_there_is(before, after)


def test_a_change_of_users_is_delivered_and_changes_neither_scripts_nor_cluster(tmp_path: Path) -> None:
    before, after = (
        synthesize(tmp_path / name, teams=[{**TEAM, "users": ["ada"]}], slurm={"users": users})
        for name, users in (("before", [ADA]), ("after", [ADA, GRACE]))
    )
    documents = [json.loads((made["manifests"] / "slurm-users.json").read_text()) for made in (before, after)]
    assert [[user["name"] for user in each["users"]] for each in documents] == [["ada"], ["ada", "grace"]]
    reaches_what_there_is(before, after)


def test_what_slurm_is_told_of_its_nodes_and_settings_reaches_them(tmp_path: Path) -> None:
    told = synthesize(tmp_path / "platform", **ACCOUNTED)["nodes"]["slurm"]
    gpus = {"name": "gpu", "type": "h100", "count": 8, "device": "/dev/nvidia"}
    facts = {"cpus": 192, "memory_mib": 2048 * 1024, "gres": gpus, "efa": 32}
    assert told.pop("instance_types")["ml.p5.48xlarge"] == facts
    assert told.pop("team_roles") is False
    assert told == SETTINGS | {"accounting_database": {**DATABASE, "port": 3306, "name": None, "user": None}}
    told = synthesize(tmp_path / "default")["nodes"]["slurm"]
    assert (told["health_checks"], told["login_needs_job"], told["private_tmp"]) == (True, True, True)
    assert told["settings"] == {}


@pytest.mark.parametrize(("changes", "exporters"), [({}, True), (ACCOUNTED, False)], ids=["default", "without"])
def test_whether_nodes_have_exporters_reaches_them(tmp_path: Path, changes: dict[str, Any], exporters: bool) -> None:
    assert synthesize(tmp_path / "platform", **changes)["nodes"]["exporters"] is exporters


def reaches_what_there_is(before: dict[str, Any], after: dict[str, Any]) -> None:
    # The stage runs again, because its wait condition is another.
    assert set(before["waits"]).isdisjoint(after["waits"])
    assert before["cluster"] == after["cluster"]
    assert before["variables"] == after["variables"]
    assert before["nodes"] == after["nodes"]


def synthesize(directory: Path, **changes: Any) -> dict[str, Any]:
    directory.mkdir()
    file = write(directory, **slurm(**changes))
    template = templates_of(file)["cluster"]
    (project,) = resources(template, "AWS::CodeBuild::Project").values()
    return {
        "manifests": assembly_in(file) / "bundles/cluster/manifests",
        "nodes": json.loads((assembly_in(file) / "bundles/cluster/nodes/parameters.json").read_text()),
        "cluster": hyperpod(template),
        "waits": resources(template, "AWS::CloudFormation::WaitCondition"),
        "variables": {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]},
    }


def test_teams_and_users_lie_below_the_scripts_prefix_which_nodes_read_and_the_stage_writes(tmp_path: Path) -> None:
    template = cluster(tmp_path, **slurm())
    (project,) = resources(template, "AWS::CodeBuild::Project").values()
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    bucket = variables["TRAINWAY_DOCUMENTS_S3_URI"]["Fn::Join"][1][1]
    assert variables["TRAINWAY_DOCUMENTS_S3_URI"] == {"Fn::Join": ["", ["s3://", bucket, "/lifecycle_scripts"]]}
    nodes = json.loads((assembly_in(tmp_path / "platform.yaml") / "bundles/cluster/nodes/parameters.json").read_text())
    for name in ("slurm_accounts", "slurm_users"):
        uri = f"${{TRAINWAY_DOCUMENTS_S3_URI}}/{name.replace('_', '-')}.json"
        assert nodes[name] == {"s3_uri": uri, "region": "us-east-1"}
    for role in ("ExecutionRole", "ScriptsStage"):
        reads = statements(template, role, "s3:GetObject")
        assert any("/lifecycle_scripts/*" in json.dumps(each["Resource"]) for each in reads), role


def test_homes_and_containers_reach_the_nodes_where_the_file_asks_for_them(tmp_path: Path) -> None:
    asks = {"storage": {"home": {}}, "slurm": {"containers": True}, "network": "closed"}
    plain, asked = (synthesize(tmp_path / name, **keys) for name, keys in (("a", {}), ("b", asks)))
    assert (plain["nodes"]["containers"], plain["variables"]["NETWORK_ACCESS"]) == ("wanted", "private")
    assert (asked["nodes"]["containers"], asked["variables"]["NETWORK_ACCESS"]) == ("required", "closed")
    assert plain["nodes"]["homes"] is None and "TRAINWAY_HOME_DNS_NAME" not in plain["variables"]
    mounted = {"mount_path": "/home", "mounted_by": "service"}
    assert asked["nodes"]["homes"] == {"dns_name": "${TRAINWAY_HOME_DNS_NAME}", **mounted}
    assert set(asked["variables"]["TRAINWAY_HOME_DNS_NAME"]) == {"Fn::ImportValue"}
