"""The parameters that the deploy writes for nodes reach the steps, or are refused with the reason."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import NODE_SCHEMA, node_schema_text
from tests.lifecycle_scripts.node_facts_reader import (
    GIVEN,
    PARAMETERS,
    SCHEMA,
    SCRIPT,
    SLURM,
    json_values,
    node_facts,
    refusal,
    run,
)
from tests.synthesis import EXAMPLES
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.slurm.node_parameters import node_parameters


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


def test_wrong_parameters_are_not_waited_for(tmp_path: Path):
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    config.write_text(json.dumps(SLURM))
    parameters.write_text("{")
    # Longer than run() waits for it.
    assert "parameters.json: not JSON" in run(config, parameters, FACTS_WAIT_SECONDS="600").stderr


@pytest.mark.parametrize(
    ("given", "fact"), [({}, "false"), ({"exporters": False}, "false"), ({"exporters": True}, "true")]
)
def test_exporters_are_wanted_or_not(given: dict[str, bool], fact: str):
    assert node_facts.facts(SLURM, PARAMETERS | given, ["10.0.1.1"])["EXPORTERS"] == fact


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
