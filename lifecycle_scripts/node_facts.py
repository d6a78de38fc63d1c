"""Prints what a node must know of itself, one NAME=value a line as a shell reads it: `node_facts.py CONFIG PARAMETERS`.

HyperPod writes every instance of the cluster into resource_config.json; a node finds itself there by its address.
Only the standard library is used, because this runs before anything can be installed.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-lifecycle-best-practices-slurm-slurm-base-config.html
https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/lifecycle_script.py
(2026-07-23)
`node_facts.py --nodes CONFIG PARAMETERS` prints all nodes of the cluster instead, as JSON.

  FACTS_WAIT_SECONDS   how long the node's address and its entry in the file may take to be there (default 60)
"""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Lists of instance groups. Of restricted ones the API has a list of its own, with the same keys:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html (read 2026-11-22)
GROUPS = ("InstanceGroups", "RestrictedInstanceGroups")
# AWS's own name for what parameters.json is here, on a cluster that was made without a SlurmConfig in the API:
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ref.html#sagemaker-hyperpod-ref-provisioning-forms-slurm
# (read 2026-11-22)
LEGACY_PARAMETERS = "provisioning_parameters.json"


class FactsError(Exception):
    """A file that is absent, not JSON or not of the documented shape, or a node that is not in it."""


class NotYetError(FactsError):
    """What may be otherwise in a moment: the file is being written, or the node's network is being restarted."""


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file at `path`; raises `FactsError`."""
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
    """Returns what HyperPod wrote; raises `NotYetError`, because it may be at it."""
    try:
        return read_json(path)
    except FactsError as error:
        raise NotYetError(str(error)) from error


def block(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the object of that name, empty where there is none; raises `FactsError`."""
    found = document.get(name) or {}
    if not isinstance(found, dict):
        raise FactsError(f"resource config: {name} is no object")
    return found


def instances(resource_config: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns (instance group, instance) for every instance; a group scaled to none has `"Instances": null` or none."""
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
    """Returns an IPv4 or IPv6 address as it is usually written, or the text as it is."""
    try:
        return str(ipaddress.ip_address(str(text).partition("%")[0]))
    except ValueError:
        return str(text)


def find(resource_config: dict[str, Any], addresses: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the (instance group, instance) whose CustomerIpAddress is one of this node's `addresses`."""
    own = {address(each) for each in addresses}
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for group, instance in instances(resource_config):
        # The same instance may be listed twice; two that share an address are a mistake.
        if address(instance.get("CustomerIpAddress")) in own and (group, instance) not in found:
            found.append((group, instance))
    if len(found) != 1:
        listed = ", ".join(sorted(own)) or "none"
        of = "".join(f"; {group['Name']}: {instance.get('InstanceName')}" for group, instance in found)
        raise NotYetError(f"resource config: {len(found)} instances have one of this node's addresses ({listed}){of}")
    return found[0]


def from_legacy(legacy: dict[str, Any]) -> dict[str, Any]:
    """Returns parameters as ours are, of a provisioning_parameters.json of AWS's."""
    if legacy.get("workload_manager") != "slurm":
        raise FactsError(f"{LEGACY_PARAMETERS}: workload_manager is {legacy.get('workload_manager')!r}, expected slurm")
    if not legacy.get("controller_group"):
        raise FactsError(f"{LEGACY_PARAMETERS}: no controller_group, and without a controller there is no Slurm")
    names, mount = ("fsx_dns_name", "fsx_mountname"), {"mount_path": "/fsx", "mounted_by": "script"}
    given = [legacy.get(name) for name in names]
    if any(given) and not all(given):
        raise FactsError(f"{LEGACY_PARAMETERS}: {' and '.join(names)} go together, and one is missing")
    return {
        "version": 1,
        "orchestrator": "hyperpod-slurm",
        "controller_group": legacy["controller_group"],
        "login_group": legacy.get("login_group"),
        "fsx": {"dns_name": given[0], "mount_name": given[1], **mount} if all(given) else None,
    }


def read_parameters(path: Path) -> dict[str, Any]:
    """Returns the parameters at `path`, or AWS's own beside it; raises `FactsError`."""
    legacy = path.with_name(LEGACY_PARAMETERS)
    return from_legacy(read_json(legacy)) if legacy.exists() and not path.exists() else read_json(path)


def role(group: str, parameters: dict[str, Any]) -> str:
    """Returns controller, login or compute for an instance group's name; on Kubernetes every node is compute."""
    if parameters.get("orchestrator") == "hyperpod-slurm":
        if group == parameters.get("controller_group"):
            return "controller"
        if group == parameters.get("login_group"):
            return "login"
    return "compute"


def nodes(resource_config: dict[str, Any], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns every node that has an address, the first controller first: its name, address, group, role, type, place.

    The place is EC2's network nodes above it, the outermost first, where HyperPod tells them for all three layers.
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
            "role": role(group["Name"], parameters),
            "type": str(instance.get("InstanceType") or group.get("InstanceType") or "unknown"),
            "place": [layers[number] for number in "123"] if layers.keys() >= set("123") else [],
        }
    primary = block(resource_config, "SlurmConfig").get("PrimaryControllerIp")
    return sorted(found.values(), key=lambda each: each["address"] != primary)


def facts(resource_config: dict[str, Any], parameters: dict[str, Any], addresses: Iterable[str]) -> dict[str, str]:
    """Returns the environment that the steps run with; raises `FactsError`."""
    if parameters.get("version") != 1:
        raise FactsError(f"parameters: version {parameters.get('version')!r}, these scripts know version 1")
    group, instance = find(resource_config, addresses)
    # Slurm asks them in this order.
    controllers = [node["address"] for node in nodes(resource_config, parameters) if node["role"] == "controller"]
    lustre, accounts = parameters.get("fsx") or {}, parameters.get("slurm_accounts") or {}
    users, homes = parameters.get("slurm_users") or {}, parameters.get("homes") or {}
    slurm = parameters.get("slurm") or {}
    database = slurm.get("accounting_database") or {}
    return {
        "CLUSTER_NAME": str(block(resource_config, "ClusterConfig").get("ClusterName", "unknown")),
        "NODE_GROUP": group["Name"],
        "NODE_NAME": str(instance.get("InstanceName") or "unknown"),
        "NODE_ADDRESS": str(instance["CustomerIpAddress"]),
        "NODE_ROLE": role(group["Name"], parameters),
        # A group with InstanceRequirements has several, and may say which of them only with each instance.
        "INSTANCE_TYPE": str(instance.get("InstanceType") or group.get("InstanceType") or "unknown"),
        "ORCHESTRATOR": str(parameters.get("orchestrator")),
        "CONTROLLER_ADDRESSES": ",".join(controllers),
        "FSX_DNS_NAME": str(lustre.get("dns_name", "")),
        "FSX_MOUNT_NAME": str(lustre.get("mount_name", "")),
        "FSX_MOUNT_PATH": str(lustre.get("mount_path", "")),
        "FSX_MOUNTED_BY": str(lustre.get("mounted_by", "")),
        "HOMES_DNS_NAME": str(homes.get("dns_name", "")),
        "HOMES_MOUNT_PATH": str(homes.get("mount_path", "")),
        "HOMES_MOUNTED_BY": str(homes.get("mounted_by", "")),
        "CONTAINERS": containers if (containers := parameters.get("containers")) in ("required", "wanted") else "none",
        "LUSTRE_EFA_INTERFACES": str((parameters.get("lustre_efa_interfaces") or {}).get(group["Name"], 0)),
        "LOGIN_NEEDS_JOB": str(slurm.get("login_needs_job", False)).lower(),
        "ACCOUNTING_ENDPOINT": str(database.get("endpoint", "")),
        "ACCOUNTING_PORT": str(database.get("port", "")),
        "ACCOUNTING_SCHEMA": str(database.get("name") or ""),
        "ACCOUNTING_SECRET": str(database.get("secret", "")),
        "SLURM_ACCOUNTS_S3_URI": str(accounts.get("s3_uri", "")),
        "SLURM_ACCOUNTS_REGION": str(accounts.get("region", "")),
        "SLURM_USERS_S3_URI": str(users.get("s3_uri", "")),
        "SLURM_USERS_REGION": str(users.get("region", "")),
        **{
            f"DIRECTORY_{name.upper()}": str((parameters.get("directory") or {}).get(name, ""))
            for name in ("uri", "base", "kind", "reader", "secret", "homes")
        },
        "EXPORTERS": "true" if parameters.get("exporters") else "false",
        "HUGE_PAGES_2MIB": str(parameters.get("huge_pages_2mib", 0)),
    }


def as_shell(found: dict[str, str]) -> str:
    """Returns one NAME=value a line, quoted; raises `FactsError`.

    Steps write facts into units, fstab and slurm.conf, where a line break would begin a line of its own.
    """
    for name, value in found.items():
        if not value.isprintable():
            raise FactsError(f"{name} is {value!r}, and no fact may have control characters")
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in found.items())


def own_addresses() -> list[str]:
    """Returns the addresses that this node has by now; raises `NotYetError`."""
    try:
        return subprocess.run(["hostname", "-I"], check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotYetError(f"hostname -I: {error}") from error


def main() -> int:
    if sys.argv[1] == "--nodes":
        resource_config, parameters = map(Path, sys.argv[2:])
        print(json.dumps(nodes(read_json(resource_config), read_parameters(parameters))))
        return 0
    resource_config, parameters = map(Path, sys.argv[1:])
    deadline = time.monotonic() + float(os.environ.get("FACTS_WAIT_SECONDS", "60"))
    try:
        known = read_parameters(parameters)
        while True:
            try:
                print(as_shell(facts(read_resource_config(resource_config), known, own_addresses())))
                return 0
            except NotYetError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
    except FactsError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
