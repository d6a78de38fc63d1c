"""A node finds itself in every documented shape of resource_config.json, and says what is wrong with the others."""

import copy
import importlib.util
import ipaddress
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import NODE_SCHEMA, node_schema_text
from tests.synthesis import EXAMPLES
from trainway.spec.derived.node_parameters import node_parameters
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform

SCRIPT = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "node_facts.py"
spec = importlib.util.spec_from_file_location("node_facts", SCRIPT)
assert spec is not None and spec.loader is not None
node_facts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(node_facts)

SCHEMA = node_facts.read_schema()
GIVEN: dict[str, Any] = {
    "orchestrator": "hyperpod-slurm",
    "controller_group": "controller",
    "login_groups": ["login"],
    "fsx": {"dns_name": "fs-1.fsx", "mount_name": "abc", "mount_path": "/fsx", "mounted_by": "service"},
}
# As the reader returns them, with every key.
PARAMETERS = node_facts.completed(GIVEN, SCHEMA)


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


def refusal(tmp_path: Path, document: Any, name: str = "parameters.json") -> str:
    """What the reader prints of a file that it refuses: one line."""
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    config.write_text(json.dumps(of_this_machine(SLURM)))
    (tmp_path / name).write_text(json.dumps(document))
    done = run(config, parameters)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"fsx": "string"}, 'fsx is "string", expected an object or null'),
        ({"fsx": GIVEN["fsx"] | {"mounted_by": "me"}}, 'fsx.mounted_by is "me", expected service, script'),
        ({"fsx": {"dns_name": "fs-1.fsx"}}, "fsx.mount_path is missing; fsx.mounted_by is missing; fsx.mount_name is"),
        ({"fsx": GIVEN["fsx"] | {"mount_name": ""}}, "fsx.mount_name is empty"),
        (
            {"fsx": GIVEN["fsx"] | {"dns_name": "${TRAINWAY_FSX_DNS_NAME}"}},
            "fsx.dns_name is ${TRAINWAY_FSX_DNS_NAME}, which the delivery was to replace",
        ),
        ({"exporters": "true"}, 'exporters is "true", expected true or false'),
        ({"lustre_efa_interfaces": {"train": True}}, "lustre_efa_interfaces.train is true, expected a whole number"),
        ({"login_groups": "login"}, 'login_groups is "login", expected a list'),
        ({"login_groups": [1]}, "login_groups[0] is 1, expected a string"),
        ({"orchestrator": "slurm"}, 'orchestrator is "slurm", expected hyperpod-slurm, hyperpod-eks'),
        ({"slurm": {"settings": {"MessageTimeout": 5}}}, "slurm.settings.MessageTimeout is 5, expected a string"),
        ({"login_group": "login"}, "login_group is a key that these scripts do not know"),
    ],
)
def test_wrong_parameters_are_one_line_that_says_where_what_and_what_to_do(
    tmp_path: Path, change: dict[str, Any], problem: str
):
    said = refusal(tmp_path, GIVEN | change)
    assert said.startswith(f"{tmp_path / 'parameters.json'}: {problem}"), said
    assert said.endswith("The deploy writes this file beside the scripts: deploy again, and replace this node\n")


@pytest.mark.parametrize("flags", [["--parameters"], ["--cluster", "resource_config.json"]])
def test_json_for_the_steps_has_every_key_and_no_traceback(tmp_path: Path, flags: list[str]):
    (tmp_path / "resource_config.json").write_text(json.dumps(SLURM))
    command = [sys.executable, str(SCRIPT), *flags, "parameters.json"]
    (tmp_path / "parameters.json").write_text(json.dumps(GIVEN))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    assert printed.get("parameters", printed) == PARAMETERS
    assert len(printed.get("nodes", [1, 2, 3, 4])) == 4
    (tmp_path / "parameters.json").write_text("[]")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "parameters.json: expected a JSON object, found list\n")


def test_the_schema_is_that_of_the_model():
    assert NODE_SCHEMA.read_text() == node_schema_text(), "run `python -m tests.golden`"


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


def run(config: Path, parameters: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FACTS_WAIT_SECONDS": "0", **environment}
    command = [sys.executable, str(SCRIPT), str(config), str(parameters)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)


def of_this_machine(config: dict[str, Any]) -> dict[str, Any]:
    """The resource config with this machine's address for the node train-1's."""
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[0]
    return json.loads(json.dumps(config).replace('"10.0.1.1"', json.dumps(own)))


def test_a_file_that_is_still_being_written_is_waited_for(tmp_path: Path):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    parameters.write_text(json.dumps(GIVEN))
    text = json.dumps(of_this_machine(SLURM))
    config.write_text(text[: len(text) // 2])
    late = subprocess.Popen(["sh", "-c", 'sleep 1; printf %s "$1" >"$2"', "-", text, config])
    done = run(config, parameters, FACTS_WAIT_SECONDS="20")
    late.wait()
    assert done.returncode == 0, done.stderr
    assert "NODE_GROUP=train" in done.stdout.splitlines()


def test_wrong_parameters_are_not_waited_for(tmp_path: Path):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    config.write_text(json.dumps(SLURM))
    parameters.write_text("{")
    # Longer than run() waits for it.
    assert "parameters.json: not JSON" in run(config, parameters, FACTS_WAIT_SECONDS="600").stderr


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


@pytest.mark.parametrize(
    ("given", "fact"), [({}, "false"), ({"exporters": False}, "false"), ({"exporters": True}, "true")]
)
def test_exporters_are_wanted_or_not(given: dict[str, bool], fact: str):
    assert node_facts.facts(SLURM, PARAMETERS | given, ["10.0.1.1"])["EXPORTERS"] == fact


def test_the_same_instance_twice_is_one():
    group = {"Name": "train", "Instances": [instance("train-1", "10.0.1.1")] * 2}
    assert node_facts.facts({"InstanceGroups": [group]}, PARAMETERS, ["10.0.1.1"])["NODE_NAME"] == "train-1"


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_found_however_it_is_written(address: ipaddress.IPv6Address):
    config = {"InstanceGroups": [{"Name": "train", "Instances": [instance("train-1", address.exploded.upper())]}]}
    assert node_facts.facts(config, PARAMETERS, [address.compressed])["NODE_GROUP"] == "train"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
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


def paths(document: Any, below: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where values are in a document."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [below, *(path for key, each in items for path in paths(each, (*below, key)))]


DOCUMENTS = [
    json.loads(node_parameters(each, load_catalogue()).model_dump_json().replace("${TRAINWAY_", "${"))
    for each in map(load_platform, EXAMPLES)
    if each.orchestrator.is_hyperpod
]


@given(st.data())
def test_the_reader_refuses_what_jsonschema_refuses(data: st.DataObject):
    """The reader knows the keywords of the schema, which has others as soon as the model asks for them."""
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    *above, last = data.draw(st.sampled_from(paths(document)[1:]))
    place = document
    for key in above:
        place = place[key]
    if isinstance(last, str) and data.draw(st.booleans()):
        place[data.draw(st.sampled_from([last, last + "x"]))] = place.pop(last)
    else:
        place[last] = data.draw(json_values)
    refused = not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    assert bool(list(node_facts.problems(document, SCHEMA))) == refused


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_parameter_is_a_variable_or_a_mapping(document: dict[str, Any]):
    found = node_facts.facts(SLURM, document, ["10.0.1.2"])
    assert {name: found[name] for name in ("CONTAINERS", "ORCHESTRATOR")} == {
        "CONTAINERS": document["containers"],
        "ORCHESTRATOR": document["orchestrator"],
    }
    # Without a file system, Slurm or a directory the variables are there, and empty.
    names = {"FSX_DNS_NAME", "HOMES_MOUNTED_BY", "SLURM_LOGIN_NEEDS_JOB", "SLURM_USERS_S3_URI", "DIRECTORY_URI"}
    assert {name for name in names if found[name] == ""} == {
        name for name in names if document[name.split("_")[0].lower()] is None and "USERS" not in name
    } | ({"SLURM_USERS_S3_URI"} if document["slurm_users"] is None else set())
    assert "SLURM_SETTINGS" not in found


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


def test_where_the_users_are_reaches_the_steps():
    users = {"s3_uri": "s3://data/lifecycle_scripts/slurm-users.json", "region": "us-west-2"}
    found = node_facts.facts(SLURM, {**PARAMETERS, "slurm_users": users}, ["10.0.1.2"])
    assert (found["SLURM_USERS_S3_URI"], found["SLURM_USERS_REGION"]) == (users["s3_uri"], "us-west-2")
    assert node_facts.facts(SLURM, PARAMETERS, ["10.0.1.2"])["SLURM_USERS_S3_URI"] == ""


def test_what_is_known_of_a_directory_reaches_the_steps():
    names = ("uri", "base", "kind", "reader", "secret", "homes")
    directory = {name: f"the {name}" for name in names}
    found = node_facts.facts(SLURM, {**PARAMETERS, "directory": directory}, ["10.0.1.2"])
    assert {name: found[f"DIRECTORY_{name.upper()}"] for name in names} == directory
    assert node_facts.facts(SLURM, PARAMETERS, ["10.0.1.2"])["DIRECTORY_URI"] == ""
