"""A cluster with AWS's own provisioning_parameters.json has its roles, directories, and database from that file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.node_facts_reader import (
    GIVEN,
    SLURM,
    node_facts,
    of_this_machine,
    refusal,
    run,
)


def test_a_cluster_made_with_a_file_of_awss_has_its_roles_from_there(tmp_path: Path):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    config.write_text(json.dumps(of_this_machine(SLURM)))
    legacy: dict[str, Any] = {"version": "1.0.0", "workload_manager": "slurm", "login_group": ""}
    legacy |= {"controller_group": "train"}
    legacy |= {"worker_groups": [{"instance_group_name": "login", "partition_name": "dev"}]}
    legacy |= {"fsx_dns_name": "fs-1.fsx.us-west-2.amazonaws.com", "fsx_mountname": "1abcdefg"}
    (tmp_path / "provisioning_parameters.json").write_text(json.dumps(legacy))
    found = run(config, parameters).stdout.splitlines()
    assert {"NODE_ROLE=controller", "FSX_MOUNT_NAME=1abcdefg", "FSX_MOUNTED_BY=script"} <= set(found)
    assert {"SLURM_ACCOUNTING_DATABASE_ENDPOINT=''", "HOMES_DNS_NAME=''"} <= set(found)
    # Ours wins where there are both.
    parameters.write_text(json.dumps(GIVEN))
    assert "NODE_ROLE=compute" in run(config, parameters).stdout.splitlines()


AWSS: dict[str, Any] = {
    "workload_manager": "slurm",
    "controller_group": "train",
    "fsx_dns_name": "fs-1.fsx.us-west-2.amazonaws.com",
    "fsx_mountname": "abc",
}
DATABASE: dict[str, Any] = {
    "slurm_database_secret_arn": "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf",
    "slurm_database_endpoint": "slurm.cluster-abc.us-west-2.rds.amazonaws.com",
    "slurm_shared_directory": "/fsx",
    "slurm_database_user": "ops",
    "slurm_sns_arn": "arn:aws:sns:us-west-2:111122223333:failover",
}


def test_several_controllers_and_home_directories_of_a_file_of_awss_reach_the_steps(tmp_path: Path):
    config = tmp_path / "resource_config.json"
    config.write_text(json.dumps(of_this_machine(SLURM)))
    homes = {"fsx_openzfs_dns_name": "fs-2.fsx.us-west-2.amazonaws.com", "slurm_configurations": DATABASE}
    (tmp_path / "provisioning_parameters.json").write_text(json.dumps(AWSS | homes))
    done = run(config, tmp_path / "parameters.json")
    assert {
        f"SLURM_ACCOUNTING_DATABASE_ENDPOINT={DATABASE['slurm_database_endpoint']}",
        f"SLURM_ACCOUNTING_DATABASE_SECRET={DATABASE['slurm_database_secret_arn']}",
        "SLURM_ACCOUNTING_DATABASE_PORT=3306",
        "SLURM_ACCOUNTING_DATABASE_USER=ops",
        "HOMES_DNS_NAME=fs-2.fsx.us-west-2.amazonaws.com",
        "HOMES_MOUNT_PATH=/home",
        "HOMES_MOUNTED_BY=script",
    } <= set(done.stdout.splitlines())
    # What AWS's scripts do and these do not is said.
    [warning] = done.stderr.splitlines()
    topic = DATABASE["slurm_sns_arn"]
    assert warning.startswith(f"WARNING: provisioning_parameters.json: slurm_sns_arn is {topic}, and nobody is told")


def test_the_user_of_the_database_is_admin_as_in_awss_scripts(tmp_path: Path):
    unnamed = {key: each for key, each in DATABASE.items() if key not in ("slurm_database_user", "slurm_sns_arn")}
    file = tmp_path / "provisioning_parameters.json"
    file.write_text(json.dumps(AWSS | {"slurm_configurations": unnamed}))
    assert node_facts.from_aws(file)["slurm"]["accounting_database"]["user"] == "admin"
    assert node_facts.left_out(tmp_path / "parameters.json") == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"workload_manager": "eks"}, 'workload_manager is "eks", expected slurm'),
        ({"controller_group": None}, "controller_group is null, expected a string"),
        ({"controller_group": ""}, "controller_group is empty"),
        ({"fsx_mountname": ""}, "fsx_dns_name and fsx_mountname go together"),
        ({"fsx_openzfs_dns_name": 1}, "fsx_openzfs_dns_name is 1, expected a string or null"),
        ({"login_group": ["login"]}, 'login_group is ["login"], expected a string or null'),
        ({"slurm_configurations": "string"}, 'slurm_configurations is "string", expected an object or null'),
        (
            {"slurm_configurations": DATABASE | {"slurm_database_endpoint": ""}},
            "slurm_configurations lacks slurm_database_endpoint",
        ),
        (
            {"slurm_configurations": DATABASE | {"slurm_shared_directory": "/shared"}},
            "slurm_configurations.slurm_shared_directory is /shared, and nodes share /fsx alone",
        ),
    ],
)
def test_a_wrong_file_of_awss_is_explained(tmp_path: Path, change: dict[str, Any], problem: str):
    said = refusal(tmp_path, AWSS | change, "provisioning_parameters.json")
    assert f"provisioning_parameters.json: {problem}" in said
    assert said.endswith("Correct it at the cluster's SourceS3Uri, and replace this node\n")
