"""Print the facts about this node, one NAME=value per line for a shell: `node_facts.py CONFIG PARAMETERS`.

This is the only reader of parameters.json, with the platform's parameters for its nodes, and of resource_config.json,
in which HyperPod lists every instance of the cluster. A node finds itself there by its address. The names of the
parameters are those of parameters.schema.json, which trainway/spec/slurm/node_parameters.py generates: `fsx.dns_name`
is FSX_DNS_NAME. Only the standard library is used, because this runs before anything can be installed.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-lifecycle-best-practices-slurm-slurm-base-config.html
https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/lifecycle_script.py
(2026-07-23)
`node_facts.py --parameters PARAMETERS` prints the parameters instead, as JSON with every key.
`node_facts.py --cluster CONFIG PARAMETERS` prints them with all nodes of the cluster.

  FACTS_WAIT_SECONDS   time to wait for the node's address and its entry in the file (default 60)
"""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

# Lists of instance groups. The API lists restricted groups separately, with the same keys:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html (read 2026-11-22)
GROUPS = ("InstanceGroups", "RestrictedInstanceGroups")
# Roles by the NodeType of an instance group's SlurmConfig, with the values of ClusterSlurmNodeType in botocore's model
# of SageMaker (1.44.5). The text of the page also uses Worker for Compute.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterSlurmConfigDetails.html (read 2026-11-22)
ROLES = {"Controller": "controller", "Login": "login", "Compute": "compute", "Worker": "compute"}
SCHEMA = Path(__file__).with_name("parameters.schema.json")
# The same values as in trainway/spec/slurm/node_parameters.py.
PLACEHOLDER, OWN_GROUP = "${TRAINWAY_", "x-own-group"
TYPES: dict[str, tuple[type, str]] = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "a string"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
    "null": (type(None), "null"),
}
OURS = "the deploy writes this file beside the scripts: deploy again, and replace this node"

# AWS's own name for what parameters.json is here, on a cluster that was made without a SlurmConfig in the API:
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ref.html#sagemaker-hyperpod-ref-provisioning-forms-slurm
# What AWS's scripts read of it: lifecycle_script.py, mount_fsx_openzfs.sh and multi_headnode_setup/headnode_setup.sh in
# https://github.com/awslabs/awsome-distributed-ai/tree/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config
# and slurm_configurations, for several controllers, on
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-slurm-api-config-migration.html
# (all read 2026-11-22)
AWS_PARAMETERS = "provisioning_parameters.json"
AWSS = "correct it at the cluster's SourceS3Uri, and replace this node"
OPTIONAL = {"anyOf": [{"type": "string"}, {"type": "null"}]}
DATABASE = ("slurm_database_secret_arn", "slurm_database_endpoint", "slurm_shared_directory")
AWS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["workload_manager", "controller_group"],
    "properties": {
        "workload_manager": {"type": "string", "enum": ["slurm"]},
        "controller_group": {"type": "string", "minLength": 1},
        **dict.fromkeys(("login_group", "fsx_dns_name", "fsx_mountname", "fsx_openzfs_dns_name"), OPTIONAL),
        "slurm_configurations": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": dict.fromkeys((*DATABASE, "slurm_database_user", "slurm_sns_arn"), OPTIONAL),
                },
                {"type": "null"},
            ]
        },
    },
}


class FactsError(Exception):
    """A file is missing, not JSON, or not of the documented form, or the node is not in it."""


class NotYetError(FactsError):
    """The error may disappear in a moment: the file is being written, or the node's network is restarting."""


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in the file at `path`. Raises `FactsError`."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise FactsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FactsError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise FactsError(f"{path}: expected a JSON object, found {type(document).__name__}")
    return document


def read_resource_config(path: Path) -> dict[str, Any]:
    """Return HyperPod's resource configuration. Raises `NotYetError`, because HyperPod may still be writing it."""
    try:
        return read_json(path)
    except FactsError as error:
        raise NotYetError(str(error)) from error


def block(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object of that name, or an empty one if it is missing. Raises `FactsError`."""
    found = document.get(name) or {}
    if not isinstance(found, dict):
        raise FactsError(f"resource config: {name} is no object")
    return found


def instances(resource_config: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (instance group, instance) for every instance. An empty group has `"Instances": null` or no such key."""
    if not isinstance(resource_config.get("InstanceGroups"), list):
        raise FactsError("resource config: no list of InstanceGroups")
    pairs = []
    for kind in GROUPS:
        groups = resource_config.get(kind) or []
        if not isinstance(groups, list):
            raise FactsError(f"resource config: {kind} is no list")
        for group in groups:
            if not isinstance(group, dict) or not isinstance(group.get("Name"), str):
                raise FactsError("resource config: an instance group without a Name")
            listed = group.get("Instances") or []
            if not isinstance(listed, list) or not all(isinstance(instance, dict) for instance in listed):
                raise FactsError(f"resource config: Instances of group {group['Name']} is not a list of objects")
            pairs += [(group, instance) for instance in listed]
    return pairs


def address(text: object) -> str:
    """Return an IPv4 or IPv6 address in its canonical form, or the text unchanged."""
    try:
        return str(ipaddress.ip_address(str(text).partition("%")[0]))
    except ValueError:
        return str(text)


def find(resource_config: dict[str, Any], addresses: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the (instance group, instance) whose CustomerIpAddress is one of this node's `addresses`."""
    own = {address(each) for each in addresses}
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for group, instance in instances(resource_config):
        # The same instance may be listed twice. Two instances with the same address are an error.
        if address(instance.get("CustomerIpAddress")) in own and (group, instance) not in found:
            found.append((group, instance))
    if len(found) != 1:
        listed = ", ".join(sorted(own)) or "none"
        of = "".join(f"; {group['Name']}: {instance.get('InstanceName')}" for group, instance in found)
        raise NotYetError(f"resource config: {len(found)} instances have one of this node's addresses ({listed}){of}")
    return found[0]


def is_of(value: object, schema: dict[str, Any]) -> bool:
    """Return whether a value has the type of a schema, if the schema has one."""
    if "type" not in schema:
        return True
    # In Python, True is an int as well.
    return isinstance(value, TYPES[schema["type"]][0]) and isinstance(value, bool) == (schema["type"] == "boolean")


def problems(value: Any, schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yield the problems of a value: each key, its value, and what a JSON Schema expects there."""
    kinds = schema.get("anyOf", [schema])
    schema = next((each for each in kinds if is_of(value, each)), {"enum": []})
    if value not in schema.get("enum", [value]):
        words = [", ".join(each.get("enum", [TYPES[each["type"]][1]])) for each in kinds]
        yield f"{where or 'the file'} is {json.dumps(value):.80}, expected {' or '.join(words)}"
    elif isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield f"{where} is empty"
        if PLACEHOLDER in value:
            yield f"{where} is {value}, which the delivery was to replace"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from problems(each, schema.get("items", {}), f"{where}[{number}]")
    elif isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name in {**dict.fromkeys(schema.get("required", ())), **value}:
            key = f"{where}.{name}" if where else name
            if name not in value:
                yield f"{key} is missing"
            elif name not in properties and others is False:
                yield f"{key} is a key that these scripts do not know"
            else:
                yield from problems(value[name], properties.get(name, others), key)


def completed(value: Any, schema: dict[str, Any]) -> Any:
    """Return a valid value, with the defaults of missing keys."""
    schema = next(each for each in schema.get("anyOf", [schema]) if is_of(value, each))
    if not isinstance(value, dict):
        return value
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    return {**defaults, **{name: completed(each, properties.get(name, others)) for name, each in value.items()}}


def checked(path: Path, schema: dict[str, Any], remedy: str) -> dict[str, Any]:
    """Return the JSON object of a file, with the schema's defaults for missing keys.

    Raises `FactsError` with every problem of the file.
    """
    found = read_json(path)
    if wrong := list(problems(found, schema)):
        raise FactsError(f"{path}: {'; '.join(wrong)}. {remedy[0].upper()}{remedy[1:]}")
    return dict(completed(found, schema))


def from_aws(path: Path) -> dict[str, Any]:
    """Return the parameters in our form, from AWS's provisioning_parameters.json."""

    def refuse(problem: str) -> NoReturn:
        raise FactsError(f"{path}: {problem}. {AWSS[0].upper()}{AWSS[1:]}")

    given = {name: each for name, each in checked(path, AWS_SCHEMA, AWSS).items() if each}
    parameters: dict[str, Any] = {"orchestrator": "hyperpod-slurm", "controller_group": given["controller_group"]}
    if login := given.get("login_group"):
        parameters["login_groups"] = [login]
    lustre = [given.get(name) for name in ("fsx_dns_name", "fsx_mountname")]
    if any(lustre):
        if not all(lustre):
            refuse("fsx_dns_name and fsx_mountname go together, and one is missing")
        mount = {"mount_path": "/fsx", "mounted_by": "script"}
        parameters["fsx"] = {"dns_name": lustre[0], "mount_name": lustre[1], **mount}
    if homes := given.get("fsx_openzfs_dns_name"):
        parameters["homes"] = {"dns_name": homes, "mount_path": "/home", "mounted_by": "script"}
    if slurm := given.get("slurm_configurations"):
        if missing := [name for name in DATABASE if not slurm.get(name)]:
            refuse(f"slurm_configurations lacks {', '.join(missing)}, which several controllers need")
        # Data that controllers share is on the file system: slurm/provision.sh creates its directory there.
        shared = slurm["slurm_shared_directory"]
        if not f"{shared}/".startswith("/fsx/") or not any(lustre):
            refuse(f"slurm_configurations.slurm_shared_directory is {shared}, and nodes share /fsx alone")
        database = {"endpoint": slurm["slurm_database_endpoint"], "secret": slurm["slurm_database_secret_arn"]}
        database["user"] = slurm.get("slurm_database_user") or "admin"
        parameters["slurm"] = {"accounting_database": {**database, "port": 3306}}
    return parameters


def left_out(path: Path) -> list[str]:
    """Return a warning for each setting of AWS's file beside `path` that AWS's scripts apply and these do not."""
    aws = path.with_name(AWS_PARAMETERS)
    if path.exists() or not aws.exists():
        return []
    topic = (read_json(aws).get("slurm_configurations") or {}).get("slurm_sns_arn")
    told = "nobody is told when a backup controller takes over; /var/log/slurm/slurmctld.log says it"
    return [f"WARNING: {aws.name}: slurm_sns_arn is {topic}, and {told}"] if topic else []


def read_schema() -> dict[str, Any]:
    """Return the JSON Schema of parameters.json. Raises `FactsError`."""
    return read_json(SCHEMA)


def read_parameters(path: Path) -> dict[str, Any]:
    """Return the parameters at `path`, or AWS's own beside it, with every key. Raises `FactsError`."""
    aws = path.with_name(AWS_PARAMETERS)
    if aws.exists() and not path.exists():
        return dict(completed(from_aws(aws), read_schema()))
    return checked(path, read_schema(), OURS)


def role(group: dict[str, Any], parameters: dict[str, Any]) -> str:
    """Return controller, login, or compute for an instance group. On Kubernetes every node is compute.

    HyperPod's own setting of the group takes precedence over the parameters. Raises `FactsError`.
    """
    if parameters["orchestrator"] != "hyperpod-slurm":
        return "compute"
    told = block(group, "SlurmConfig").get("NodeType")
    if told is not None:
        if not isinstance(told, str) or told not in ROLES:
            expected = ", ".join(ROLES)
            raise FactsError(f"resource config: NodeType of group {group['Name']} is {told!r}, expected {expected}")
        return ROLES[told]
    if group["Name"] == parameters.get("controller_group"):
        return "controller"
    return "login" if group["Name"] in parameters.get("login_groups", ()) else "compute"


def nodes(resource_config: dict[str, Any], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every node that has an address, first controller first: name, address, group, role, type, and place.

    The place is the list of EC2's network nodes above it, outermost first, if HyperPod reports all three layers.
    https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/tools/devops-agent/docs/hyperpod-mental-model.md
    (read 2026-11-22)
    """
    found: dict[str, dict[str, Any]] = {}
    for group, instance in instances(resource_config):
        if not (given := instance.get("CustomerIpAddress")):
            continue
        labels = block(instance, "InstanceLabel")
        layers = {str(key)[-1]: str(value) for key, value in labels.items() if "network-node-layer-" in str(key)}
        found[address(given)] = {
            "name": "ip-" + address(given).replace(".", "-"),
            "address": address(given),
            "group": group["Name"],
            "role": role(group, parameters),
            "type": str(instance.get("InstanceType") or group.get("InstanceType") or "unknown"),
            "place": [layers[number] for number in "123"] if layers.keys() >= set("123") else [],
        }
    primary = block(resource_config, "SlurmConfig").get("PrimaryControllerIp")
    return sorted(found.values(), key=lambda each: each["address"] != primary)


def variables(name: str, value: Any, schema: dict[str, Any], group: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of a parameter: one per key of an object, and this group's value of a mapping by group.

    A list is joined with commas, and null is empty. Other mappings have no variables: steps read them from the
    parameters.
    """
    schema = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    if OWN_GROUP in schema:
        yield name, str(value.get(group, schema[OWN_GROUP]))
    elif "properties" in schema:
        for key, each in schema["properties"].items():
            below = f"{name}_{key}" if name else key
            yield from variables(below.upper(), value[key] if value else None, each, group)
    elif isinstance(value, bool):
        yield name, str(value).lower()
    elif schema["type"] != "object":
        yield name, ",".join(value) if isinstance(value, list) else "" if value is None else str(value)


def facts(resource_config: dict[str, Any], parameters: dict[str, Any], addresses: Iterable[str]) -> dict[str, str]:
    """Return the environment of the steps. Raises `FactsError`."""
    group, instance = find(resource_config, addresses)
    # Slurm queries the controllers in this order.
    controllers = [node["address"] for node in nodes(resource_config, parameters) if node["role"] == "controller"]
    return {
        "CLUSTER_NAME": str(block(resource_config, "ClusterConfig").get("ClusterName", "unknown")),
        "NODE_GROUP": group["Name"],
        "NODE_NAME": str(instance.get("InstanceName") or "unknown"),
        "NODE_ADDRESS": str(instance["CustomerIpAddress"]),
        "NODE_ROLE": role(group, parameters),
        # A group with InstanceRequirements has several types, and may name the type only at each instance.
        "INSTANCE_TYPE": str(instance.get("InstanceType") or group.get("InstanceType") or "unknown"),
        "CONTROLLER_ADDRESSES": ",".join(controllers),
        **dict(variables("", parameters, read_schema(), group["Name"])),
    }


def as_shell(found: dict[str, str]) -> str:
    """Return one NAME=value per line, quoted. Raises `FactsError`.

    Steps write facts into units, fstab, and slurm.conf, where a line break would begin a new line.
    """
    for name, value in found.items():
        if not value.isprintable():
            raise FactsError(f"{name} is {value!r}, and no fact may have control characters")
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in found.items())


def own_addresses() -> list[str]:
    """Return the current addresses of this node. Raises `NotYetError`."""
    try:
        return subprocess.run(["hostname", "-I"], check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotYetError(f"hostname -I: {error}") from error


def waited_for(resource_config: Path, parameters: dict[str, Any]) -> dict[str, str]:
    """Return the facts of this node once HyperPod has written them. Raises `FactsError`."""
    deadline = time.monotonic() + float(os.environ.get("FACTS_WAIT_SECONDS", "60"))
    while True:
        try:
            return facts(read_resource_config(resource_config), parameters, own_addresses())
        except NotYetError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def main() -> int:
    *flags, last = sys.argv[1:]
    path = Path(last)
    try:
        parameters = read_parameters(path)
        if flags == ["--parameters"]:
            print(json.dumps(parameters))
        elif flags[0] == "--cluster":
            print(json.dumps({"nodes": nodes(read_json(Path(flags[1])), parameters), "parameters": parameters}))
        else:
            print(as_shell(waited_for(Path(flags[0]), parameters)))
            for warning in left_out(path):
                print(warning, file=sys.stderr)
    except FactsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
