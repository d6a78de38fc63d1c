"""A node finds itself in every documented shape of resource_config.json, and says what is wrong with the others."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "node_facts.py"
spec = importlib.util.spec_from_file_location("node_facts", SCRIPT)
assert spec is not None and spec.loader is not None
node_facts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(node_facts)

PARAMETERS = {
    "version": 1,
    "orchestrator": "hyperpod-slurm",
    "controller_group": "controller",
    "login_group": "login",
    "fsx": {"dns_name": "fs-1.fsx", "mount_name": "abc", "mount_path": "/fsx", "mounted_by": "service"},
    "huge_pages_2mib": 0,
}


def instance(name: str, address: str) -> dict[str, str]:
    return {
        "InstanceName": name,
        "AgentIpAddress": "172.16.0.9",
        "CustomerIpAddress": address,
        "InstanceId": "i-0123456789abcdef0",
    }


SLURM = {
    "ClusterConfig": {"ClusterArn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc", "ClusterName": "atlas"},
    "ClusterType": "Slurm",
    "SlurmConfig": {"PrimaryControllerIp": "10.0.0.10", "SecondaryControllerIps": []},
    "InstanceGroups": [
        {"Name": "controller", "InstanceType": "ml.m5.xlarge", "Instances": [instance("controller-1", "10.0.0.10")]},
        {"Name": "login", "InstanceType": "ml.m5.xlarge", "Instances": [instance("login-1", "10.0.0.20")]},
        {
            "Name": "train",
            "InstanceType": "ml.p5en.48xlarge",
            "Instances": [instance("train-1", "10.0.1.1"), instance("train-2", "10.0.1.2")],
        },
        {"Name": "scaled-to-none", "InstanceType": "ml.g5.xlarge", "Instances": None},
        {"Name": "absent", "InstanceType": "ml.g5.xlarge"},
    ],
}

KUBERNETES = {
    "ClusterConfig": {"ClusterName": "atlas"},
    "ClusterType": "Kubernetes",
    "KubernetesConfig": {"EksClusterName": "atlas"},
    "InstanceGroups": [
        {
            "Name": "controller",
            "InstanceType": "ml.p5.48xlarge",
            "Instances": [{**instance("hyperpod-i-1", "10.0.1.1"), "InstanceLabel": None}],
        }
    ],
}


@pytest.mark.parametrize(
    ("address", "role", "group"),
    [("10.0.0.10", "controller", "controller"), ("10.0.0.20", "login", "login"), ("10.0.1.2", "compute", "train")],
)
def test_a_node_finds_its_role_and_group_by_its_address(address: str, role: str, group: str):
    found = node_facts.facts(SLURM, PARAMETERS, ["172.17.0.1", address, "fe80::1"])
    assert (found["NODE_ROLE"], found["NODE_GROUP"]) == (role, group)
    assert found["CLUSTER_NAME"] == "atlas"
    assert found["CONTROLLER_ADDRESSES"] == "10.0.0.10"


def test_on_kubernetes_every_node_is_compute_whatever_its_group_is_called():
    parameters = {"version": 1, "orchestrator": "hyperpod-eks", "controller_group": None, "fsx": None}
    found = node_facts.facts(KUBERNETES, parameters, ["10.0.1.1"])
    assert (found["NODE_ROLE"], found["FSX_DNS_NAME"]) == ("compute", "")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no list of InstanceGroups"),
        ({"InstanceGroups": {}}, "no list of InstanceGroups"),
        ({"InstanceGroups": [{"Instances": []}]}, "an instance group without a Name"),
        ({"InstanceGroups": [{"Name": "train", "Instances": ["i-1"]}]}, "Instances of group train is not a list"),
        ({"InstanceGroups": []}, "0 instances have one of this node's addresses (10.0.1.1)"),
        (
            {"InstanceGroups": [{"Name": name, "Instances": [instance(name, "10.0.1.1")]} for name in ("a", "b")]},
            "2 instances have one of this node's addresses",
        ),
    ],
)
def test_a_broken_resource_config_is_explained(config, message: str):
    with pytest.raises(node_facts.FactsError) as raised:
        node_facts.facts(config, PARAMETERS, ["10.0.1.1"])
    assert message in str(raised.value)


def test_parameters_of_another_version_are_refused():
    with pytest.raises(node_facts.FactsError, match="these scripts know version 1"):
        node_facts.facts(SLURM, {**PARAMETERS, "version": 2}, ["10.0.1.1"])


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file"), ("{", "not JSON"), ("[]", "expected a JSON object, found list"), ("\x00", "not JSON")],
)
def test_an_unreadable_file_is_one_line_and_no_traceback(tmp_path: Path, text: str | None, message: str):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    parameters.write_text(json.dumps(PARAMETERS))
    if text is not None:
        config.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, config, parameters], capture_output=True, text=True)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_only_the_standard_library_is_imported():
    imports = [line.split() for line in SCRIPT.read_text().splitlines() if line.startswith(("import ", "from "))]
    names = {words[1].partition(".")[0] for words in imports}
    assert names <= set(sys.stdlib_module_names)
