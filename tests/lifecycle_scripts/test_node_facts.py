"""A node finds itself in every documented shape of resource_config.json, and says what is wrong with the others."""

import ipaddress
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle_scripts.node_facts_reader import (
    GIVEN,
    PARAMETERS,
    SCHEMA,
    SCRIPT,
    SLURM,
    instance,
    json_values,
    node_facts,
    of_this_machine,
    run,
)

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
    config = json.loads(json.dumps(KUBERNETES))
    config["InstanceGroups"][0]["SlurmConfig"] = {"NodeType": "Controller"}
    parameters = node_facts.completed({"orchestrator": "hyperpod-eks"}, SCHEMA)
    found = node_facts.facts(config, parameters, ["10.0.1.1"])
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


@pytest.mark.parametrize(
    ("told", "role"),
    [("Controller", "controller"), ("Login", "login"), ("Compute", "compute"), ("Worker", "compute"), (None, "login")],
)
def test_what_hyperpod_says_of_a_group_goes_before_what_the_group_is_called(told: str | None, role: str):
    config = json.loads(json.dumps(SLURM))
    config["InstanceGroups"][1]["SlurmConfig"] = {"NodeType": told} if told else None
    assert node_facts.facts(config, PARAMETERS, ["10.0.0.20"])["NODE_ROLE"] == role


def test_the_roles_are_those_of_the_api():
    kinds = (
        botocore.session.get_session().get_service_model("sagemaker").shape_for("ClusterSlurmNodeType").metadata["enum"]
    )
    assert set(kinds) == set(node_facts.ROLES) - {"Worker"}


@pytest.mark.parametrize("told", ["Head", 1, ["Login"]])
def test_a_role_that_hyperpod_does_not_have_is_refused(told: object):
    config = json.loads(json.dumps(SLURM))
    config["InstanceGroups"][2]["SlurmConfig"] = {"NodeType": told}
    with pytest.raises(node_facts.FactsError, match=r"NodeType of group train is .*, expected Controller, Login"):
        node_facts.facts(config, PARAMETERS, ["10.0.1.1"])


def test_there_may_be_several_login_groups_and_several_controller_groups():
    config = json.loads(json.dumps(SLURM))
    listed = [instance("more-1", "10.0.0.11")]
    config["InstanceGroups"].append({"Name": "more", "Instances": listed, "SlurmConfig": {"NodeType": "Controller"}})
    config["InstanceGroups"].append({"Name": "login-2", "Instances": [instance("login-2", "10.0.0.21")]})
    several = PARAMETERS | {"login_groups": ["login", "login-2"]}
    found = node_facts.facts(config, several, ["10.0.0.21"])
    assert (found["NODE_ROLE"], found["LOGIN_GROUPS"]) == ("login", "login,login-2")
    assert found["CONTROLLER_ADDRESSES"] == "10.0.0.10,10.0.0.11"
    assert node_facts.facts(config, several, ["10.0.0.11"])["NODE_ROLE"] == "controller"


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file"), ("{", "not JSON"), ("[]", "expected a JSON object, found list"), ("\x00", "not JSON")],
)
def test_an_unreadable_file_is_one_line_and_no_traceback(tmp_path: Path, text: str | None, message: str):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    parameters.write_text(json.dumps(GIVEN))
    if text is not None:
        config.write_text(text)
    done = run(config, parameters)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_is_still_being_written_is_waited_for(tmp_path: Path):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    parameters.write_text(json.dumps(GIVEN))
    text = json.dumps(of_this_machine(SLURM))
    config.write_text(text[: len(text) // 2])
    late = subprocess.Popen(["sh", "-c", 'sleep 1; printf %s "$1" >"$2"', "-", text, config])
    done = run(config, parameters, FACTS_WAIT_SECONDS="300")
    late.wait()
    assert done.returncode == 0, done.stderr
    assert "NODE_GROUP=train" in done.stdout.splitlines()


def test_the_primary_controller_is_asked_first():
    config = json.loads(json.dumps(SLURM))
    config["InstanceGroups"][0]["Instances"].insert(0, instance("controller-2", "10.0.0.11"))
    found = node_facts.facts(config, PARAMETERS, ["10.0.1.1"])
    assert found["CONTROLLER_ADDRESSES"] == "10.0.0.10,10.0.0.11"


def test_restricted_groups_are_instance_groups():
    restricted = {"Name": "nova", "InstanceType": "ml.p5.48xlarge", "Instances": [instance("nova-1", "10.0.2.1")]}
    found = node_facts.facts({**SLURM, "RestrictedInstanceGroups": [restricted]}, PARAMETERS, ["10.0.2.1"])
    assert (found["NODE_GROUP"], found["INSTANCE_TYPE"]) == ("nova", "ml.p5.48xlarge")


def test_a_group_of_several_types_has_its_nodes_type_where_it_is_told():
    several = {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5en.48xlarge"]}
    listed = instance("train-1", "10.0.1.1")
    group = {"Name": "train", "InstanceRequirements": several, "Instances": [listed]}
    assert node_facts.facts({"InstanceGroups": [group]}, PARAMETERS, ["10.0.1.1"])["INSTANCE_TYPE"] == "unknown"
    listed["InstanceType"] = "ml.p5en.48xlarge"
    found = node_facts.facts({"InstanceGroups": [group]}, PARAMETERS, ["10.0.1.1"])
    assert found["INSTANCE_TYPE"] == "ml.p5en.48xlarge"


def test_the_same_instance_twice_is_one():
    group = {"Name": "train", "Instances": [instance("train-1", "10.0.1.1")] * 2}
    assert node_facts.facts({"InstanceGroups": [group]}, PARAMETERS, ["10.0.1.1"])["NODE_NAME"] == "train-1"


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_found_however_it_is_written(address: ipaddress.IPv6Address):
    config = {"InstanceGroups": [{"Name": "train", "Instances": [instance("train-1", address.exploded.upper())]}]}
    assert node_facts.facts(config, PARAMETERS, [address.compressed])["NODE_GROUP"] == "train"


group_keys = ("Name", "InstanceType", "Instances")
groups = st.fixed_dictionaries({}, optional=dict.fromkeys(group_keys, json_values))
keys = ("ClusterConfig", "SlurmConfig", "InstanceGroups", "RestrictedInstanceGroups")
configs = st.fixed_dictionaries({}, optional={key: json_values | st.lists(groups, max_size=3) for key in keys})


@given(configs)
def test_any_json_is_either_understood_or_explained(config: dict[str, Any]):
    """An InstanceGroup beside the real one, a key of a new kind: never a traceback."""
    listed = config.get("InstanceGroups")
    extra = {"Name": "train", "InstanceType": "ml.p5.48xlarge", "Instances": [instance("train-1", "10.0.1.1")]}
    if isinstance(listed, list):
        config["InstanceGroups"] = [*listed, extra]
    with suppress(node_facts.FactsError):
        assert node_facts.facts(config, PARAMETERS, ["10.0.1.1"])["NODE_GROUP"] == "train"


@given(st.dictionaries(st.from_regex(r"FACT_[A-Z]{1,4}", fullmatch=True), st.text(max_size=20), min_size=1, max_size=4))
def test_a_shell_reads_exactly_what_was_meant_or_the_value_is_refused(found: dict[str, str]):
    try:
        printed = node_facts.as_shell(found)
    except node_facts.FactsError as refused:
        assert "no fact may have control characters" in str(refused)
        assert not all(value.isprintable() for value in found.values())
        return
    names = [f'"${{{name}}}"' for name in found]
    script = f"{printed}\nprintf '%s\\n' {' '.join(names)}"
    done = subprocess.run(["bash", "-c", script], env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True)
    assert done.stdout.decode().split("\n")[:-1] == list(found.values())


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "\x1b[31m"])
def test_a_name_with_control_characters_is_refused(name: str):
    with pytest.raises(node_facts.FactsError, match="and no fact may have control characters"):
        node_facts.as_shell({"CLUSTER_NAME": name})


def test_only_the_standard_library_is_imported():
    imports = [line.split() for line in SCRIPT.read_text().splitlines() if line.startswith(("import ", "from "))]
    names = {words[1].partition(".")[0] for words in imports}
    assert names <= set(sys.stdlib_module_names)
