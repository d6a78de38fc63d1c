"""The scripts stage delivers exactly lifecycle_scripts/ and this platform's parameters."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SLURM = {
    "LIFECYCLE_S3_URI": "s3://sagemaker-atlas/lifecycle",
    "ORCHESTRATOR": "hyperpod-slurm",
    "CONTROLLER_GROUP": "controller",
    "LUSTRE_EFA_INTERFACES": '{"train": 8}',
    "FSX_DNS_NAME": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    "FSX_MOUNT_NAME": "abcdefgh",
    "FSX_MOUNT_PATH": "/fsx",
    "FSX_MOUNTED_BY": "service",
}


def test_scripts_are_synchronised_exactly_with_the_platforms_parameters(aws):
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 0, done.stderr
    [call] = aws.called("aws", "s3", "sync")
    assert call[4:] == ["s3://sagemaker-atlas/lifecycle/", "--delete", "--no-progress"]
    synced = aws.root / "s3" / "synced"
    assert {path.relative_to(synced).as_posix() for path in synced.rglob("*") if path.is_file()} == {
        path.relative_to(ROOT / "lifecycle_scripts").as_posix()
        for path in (ROOT / "lifecycle_scripts").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {"parameters.json"}
    assert json.loads((synced / "parameters.json").read_text()) == {
        "version": 1,
        "orchestrator": "hyperpod-slurm",
        "controller_group": "controller",
        "login_group": None,
        "fsx": {
            "dns_name": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
            "mount_name": "abcdefgh",
            "mount_path": "/fsx",
            "mounted_by": "service",
        },
        "homes": None,
        "containers": "none",
        "exporters": False,
        "lustre_efa_interfaces": {"train": 8},
        "huge_pages_2mib": 0,
        "slurm": None,
        "slurm_accounts": None,
        "slurm_users": None,
        "directory": None,
    }


def test_what_slurm_is_told_is_what_the_stage_was_told(aws):
    told = {"instance_types": {}, "health_checks": True, "login_needs_job": False, "settings": {}}
    assert aws.run("scripts.sh", **SLURM, SLURM_NODES=json.dumps(told)).returncode == 0
    assert json.loads((aws.root / "s3" / "synced" / "parameters.json").read_text())["slurm"] == told


def test_homes_and_containers_are_facts_of_the_node(aws):
    homes = {"dns_name": "fs-2.fsx", "mount_path": "/home", "mounted_by": "service"}
    done = aws.run("scripts.sh", **SLURM, **{f"HOMES_{name.upper()}": value for name, value in homes.items()})
    assert done.returncode == 0, done.stderr
    assert json.loads((aws.root / "s3" / "synced" / "parameters.json").read_text())["homes"] == homes


def test_exporters_are_a_fact_of_the_node(aws):
    assert aws.run("scripts.sh", **SLURM, EXPORTERS="true").returncode == 0
    assert json.loads((aws.root / "s3" / "synced" / "parameters.json").read_text())["exporters"] is True


def test_the_teams_lie_where_no_version_of_the_scripts_does(aws):
    uri = "s3://sagemaker-atlas/slurm-accounts.json"
    (aws.root / "manifests").mkdir()
    (aws.root / "manifests/slurm-accounts.json").write_text("{}")
    done = aws.run("scripts.sh", **SLURM, SLURM_ACCOUNTS_S3_URI=uri, SLURM_ACCOUNTS_REGION="us-west-2")
    assert done.returncode == 0, done.stderr
    [call] = aws.called("aws", "s3", "cp")
    assert Path(call[3]) == aws.root / "delivery/../manifests/slurm-accounts.json"
    assert call[4] == uri
    parameters = json.loads((aws.root / "s3" / "synced" / "parameters.json").read_text())
    assert parameters["slurm_accounts"] == {"s3_uri": uri, "region": "us-west-2"}


def test_the_users_lie_where_no_version_of_the_scripts_does(aws):
    uri = "s3://sagemaker-atlas/slurm-users.json"
    (aws.root / "manifests").mkdir()
    (aws.root / "manifests/slurm-users.json").write_text("{}")
    done = aws.run("scripts.sh", **SLURM, SLURM_USERS_S3_URI=uri, SLURM_USERS_REGION="us-west-2")
    assert done.returncode == 0, done.stderr
    [call] = aws.called("aws", "s3", "cp")
    assert Path(call[3]) == aws.root / "delivery/../manifests/slurm-users.json"
    assert call[4] == uri
    parameters = json.loads((aws.root / "s3" / "synced" / "parameters.json").read_text())
    assert parameters["slurm_users"] == {"s3_uri": uri, "region": "us-west-2"}


def test_the_directory_is_what_the_stage_was_told_of_it(aws):
    directory = {"uri": "ldaps://ldap.example.com", "base": "dc=example,dc=com"}
    done = aws.run("scripts.sh", **SLURM, SLURM_DIRECTORY=json.dumps(directory))
    assert done.returncode == 0, done.stderr
    assert json.loads((aws.root / "s3" / "synced" / "parameters.json").read_text())["directory"] == directory


def test_certificates_that_no_node_would_trust_stop_before_anything_is_delivered(aws):
    certificates = aws.root / "lifecycle_scripts" / "certificates"
    (certificates / "proxy.pem").write_text("not one")
    (certificates / "proxy.cer").write_text("")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert "no node would trust these certificates" in done.stderr
    assert "proxy.pem: no certificate in PEM" in done.stderr
    assert "proxy.cer: only .crt and .pem files are certificates" in done.stderr
    assert aws.calls == []


def test_no_provisioning_parameters_file_is_delivered_since_hyperpod_refuses_it(aws):
    aws.run("scripts.sh", **SLURM)
    assert not list((aws.root / "s3" / "synced").rglob("provisioning_parameters.json"))


def test_a_bucket_without_a_prefix_is_refused_because_the_rest_would_be_deleted(aws):
    done = aws.run("scripts.sh", **{**SLURM, "LIFECYCLE_S3_URI": "s3://sagemaker-atlas/"})
    assert done.returncode == 1
    assert "must name a prefix" in done.stderr
    assert aws.calls == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ORCHESTRATOR": "slurm"}, "ORCHESTRATOR is 'slurm'"),
        ({"CONTROLLER_GROUP": ""}, "CONTROLLER_GROUP is empty"),
        ({"FSX_MOUNT_NAME": ""}, "FSX_MOUNT_NAME empty while FSX_DNS_NAME"),
        ({"FSX_MOUNTED_BY": "me"}, "FSX_MOUNTED_BY is 'me'"),
        ({"HOMES_DNS_NAME": "fs-2.fsx"}, "HOMES_MOUNT_PATH, HOMES_MOUNTED_BY empty while HOMES_DNS_NAME is set"),
        ({"CONTAINERS": "yes"}, "CONTAINERS is 'yes', expected required, wanted or none"),
        ({"HUGE_PAGES_2MIB": "-1"}, "HUGE_PAGES_2MIB is '-1'"),
        ({"EXPORTERS": "yes"}, "EXPORTERS is 'yes', expected true or false"),
        (
            {"SLURM_ACCOUNTS_S3_URI": "s3://a/b"},
            "SLURM_ACCOUNTS_S3_URI is 's3://a/b' while SLURM_ACCOUNTS_REGION is ''",
        ),
        ({"SLURM_DIRECTORY": "ldaps://"}, "SLURM_DIRECTORY is no JSON"),
        ({"SLURM_USERS_REGION": "us-west-2"}, "SLURM_USERS_S3_URI is '' while SLURM_USERS_REGION is 'us-west-2'"),
    ],
)
def test_wrong_parameters_stop_before_anything_is_delivered(aws, change: dict[str, str], message: str):
    done = aws.run("scripts.sh", **{**SLURM, **change})
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert aws.calls == []
