"""What a HyperPod node knows of its platform: from the synthesis, through the scripts' stage, to the node's reader."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from delivery.render_manifests import render
from tests.representatives import with_representatives
from tests.seams.resolved import Deployed, deploy, deployed_of
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.shapes import IN_ONE_REGION, platforms
from tests.seams.stage_calls import Stage, run_stage, stages_of
from tests.synthesis import templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.slurm.node_parameters import NodeParameters, node_parameters
from trainway.spec.slurm.slurm_accounts import slurm_accounts
from trainway.spec.slurm.slurm_nodes import DatabaseOnNodes

HYPERPOD = [name for name, each in platforms().items() if each.orchestrator.is_hyperpod]
EVERYTHING = "everything"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:{}-AbCdEf"
# A platform whose nodes know all that a platform file can have them know.
FILE: dict[str, Any] = {
    "name": EVERYTHING,
    **IN_ONE_REGION,
    "orchestrator": "hyperpod-slurm",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}],
    "storage": {"bucket": {"team_prefixes": True}, "home": {}, "lustre": {"efa": True, "capacity_tib": 19.2}},
    "teams": [{"name": "research", "users": ["ada"]}, {"name": "guests", "users": ["linus"]}],
    "slurm": {
        "containers": True,
        "observability": True,
        "login_needs_job": True,
        "job_walls": True,
        "private_tmp": True,
        "settings": {"MessageTimeout": "30"},
        "accounting_database": {
            "endpoint": "slurm.cluster-abc.us-west-2.rds.amazonaws.com",
            "secret": SECRET.format("slurm"),
            "name": "slurm_everything",
        },
        "directory": {
            "uri": "ldaps://ldap.example.com",
            "base": "dc=example,dc=com",
            "reader": {"name": "cn=reader,dc=example,dc=com", "secret": SECRET.format("ldap")},
        },
    },
}
Change = Callable[[Path], object]


@cache
def everything() -> tuple[Platform, Deployed]:
    """Return the platform of FILE and its resources."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "platform.yaml"
        file.write_text(yaml.safe_dump(FILE), encoding="utf-8")
        platform = load_platform(file)
        return platform, deploy(templates_of(platform), platform.region)


def platform_and_stage(name: str) -> tuple[Platform, Stage]:
    """Return a HyperPod platform and its scripts' stage, with the environment that its template gives it."""
    platform, deployed = everything() if name == EVERYTHING else (platforms()[name], deployed_of(name))
    (stage,) = (each for each in stages_of(deployed) if each.name == "scripts")
    return platform, stage


def on_a_node(delivered: Path, group: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the parameters and the variables that the reader prints on a node of an instance group.

    `delivered` has the scripts and the parameters. The node is this machine.
    """
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[0]
    config = delivered.parent / "resource_config.json"
    config.write_text(json.dumps({"InstanceGroups": [{"Name": group, "Instances": [{"CustomerIpAddress": own}]}]}))

    def printed(*words: str | Path) -> str:
        command = [sys.executable, delivered / "node_facts.py", *words, delivered / "parameters.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout

    variables = dict(line.split("=", 1) for line in shlex.split(printed(config)))
    return json.loads(printed("--parameters")), variables


def filled(value: Any, environment: Mapping[str, str]) -> Any:
    """Return a value of the model, with the placeholders in it replaced."""
    if isinstance(value, dict):
        return {key: filled(each, environment) for key, each in value.items()}
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda found: environment[found[1]], value)
    return [filled(each, environment) for each in value] if isinstance(value, list) else value


def expected_variables(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the variables of what the model has: each value that is neither a mapping nor nothing."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from expected_variables(f"{name}_{key}".strip("_").upper(), each)
    elif value is not None and not isinstance(value, list):
        yield name, json.dumps(value) if isinstance(value, bool) else str(value)


def differences(name: str, directory: Path, change: Change, lacking: str = "") -> list[str]:
    """Return how what a node of a platform reads differs from what the model says.

    `change` is made to the bundle, and the variable `lacking` is taken from the stage.
    """
    platform, stage = platform_and_stage(name)
    given = {key: each for key, each in stage.environment.items() if key != lacking}
    group = platform.node_groups[0].name
    try:
        run_stage(platform, replace(stage, environment=given), directory, change)
        read, variables = on_a_node(directory / "done" / "synced", group)
    except AssertionError as error:
        return [str(error)]
    model = node_parameters(platform, load_catalogue()).model_dump(mode="json")
    told: dict[str, Any] = filled(model, stage.environment)
    differ = [key for key in {**told, **read} if read.get(key) != told.get(key)]
    found = [f"{key} is {read.get(key)}, not {told.get(key)}" for key in differ]
    # Mappings have no variables, but for the value of the node's own group.
    plain = {key: each for key, each in told.items() if key != "lustre_efa_interfaces"}
    mappings = ("instance_types", "settings")
    plain["slurm"] = {key: each for key, each in (told["slurm"] or {}).items() if key not in mappings}
    expected = dict(expected_variables("", plain))
    expected["LUSTRE_EFA_INTERFACES"] = str(told["lustre_efa_interfaces"].get(group, 0))
    expected["LOGIN_GROUPS"] = ",".join(told["login_groups"])
    return found + [f"{key} is {variables.get(key)}" for key, each in expected.items() if variables.get(key) != each]


def parameters_become(change: Callable[[dict[str, Any]], object]) -> Change:
    """Return a change of the parameters in a bundle."""

    def edit(bundle: Path) -> None:
        file = bundle / "nodes" / "parameters.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        change(document)
        file.write_text(json.dumps(document), encoding="utf-8")

    return edit


def unchanged(_: Path) -> None:
    """Leave the bundle as it is."""


@pytest.mark.parametrize("name", with_representatives([*HYPERPOD, EVERYTHING], {"governance", EVERYTHING}))
def test_a_node_reads_every_field_of_the_model(name: str, tmp_path: Path) -> None:
    assert differences(name, tmp_path, unchanged) == []


def test_the_orchestrators_of_hyperpod_are_both_read() -> None:
    assert {platforms()[name].orchestrator.value for name in HYPERPOD} == {"hyperpod-eks", "hyperpod-slurm"}


def test_the_stage_knows_the_role_of_each_team() -> None:
    platform, stage = platform_and_stage(EVERYTHING)
    accounts = json.loads(render(json.dumps(slurm_accounts(platform)), stage.environment))["accounts"]
    roles = {each["name"]: each["role"] for each in accounts}
    assert roles.keys() == {"research", "guests"}
    assert all(f"SlurmJobRoleOf{name.title()}" in role for name, role in roles.items()), roles


def test_one_platform_has_a_value_for_every_field() -> None:
    """A new field has to be given to FILE, and is read then."""
    document = node_parameters(everything()[0], load_catalogue()).model_dump(mode="json")
    slurm = document["slurm"]
    assert all(document[name] for name in NodeParameters.model_fields), document
    assert all(slurm[name] for name in slurm), slurm
    assert all(document["directory"].values()), document["directory"]
    # The user of the database comes from AWS's file alone.
    assert {name for name in DatabaseOnNodes.model_fields if not slurm["accounting_database"][name]} == {"user"}


def of(change: Change = unchanged, lacking: str = "") -> Reading:
    """Return a reading of what reaches a node of the platform with everything."""

    def read(directory: Path) -> Sequence[str]:
        return differences(EVERYTHING, directory, change, lacking)

    return read


def planted(error: str, change: Callable[[dict[str, Any]], object]) -> Planted:
    """Plant an error in the parameters of the bundle."""
    return Planted(error, of(), of(parameters_become(change)))


SEAMS = (
    Seam(
        artifact="Parameters of HyperPod nodes",
        rendered_by="trainway/spec/slurm/node_parameters.py",
        reader="lifecycle_scripts/node_facts.py, which the nodes run, on what a run of the scripts' stage delivers",
        planted=(
            planted("a placeholder is misspelled", lambda it: it["fsx"].update(dns_name="${TRAINWAY_FSX_DNS}")),
            Planted("the stage is not told a file system's name", of(), of(lacking="TRAINWAY_HOME_DNS_NAME")),
            planted("a field is unknown to the reader", lambda it: it.update(huge_pages=0)),
            planted("a field of a file system has another name", lambda it: it["homes"].update(path="/home")),
            planted("a file system is a string", lambda it: it.update(fsx="string")),
            planted("a switch is a string", lambda it: it.update(exporters="true")),
            planted("a field is left out", lambda it: it.pop("directory")),
        ),
    ),
)
