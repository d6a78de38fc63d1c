"""Prints what a node must know of itself, one NAME=value a line: `node_facts.py RESOURCE_CONFIG PARAMETERS`.

HyperPod writes every instance of the cluster into resource_config.json; a node finds itself there by its address.
Only the standard library is used, because this runs before anything can be installed.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-lifecycle-best-practices-slurm-slurm-base-config.html
https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/lifecycle_script.py
(2026-07-23)
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class FactsError(Exception):
    """A file that is absent, not JSON or not of the documented shape, or a node that is not in it."""


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


def instances(resource_config: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns (instance group, instance) for every instance; a group scaled to none has `"Instances": null` or none."""
    groups = resource_config.get("InstanceGroups")
    if not isinstance(groups, list):
        raise FactsError("resource config: no list of InstanceGroups")
    pairs = []
    for group in groups:
        if not isinstance(group, dict) or not isinstance(group.get("Name"), str):
            raise FactsError("resource config: an instance group without a Name")
        listed = group.get("Instances") or []
        if not isinstance(listed, list) or not all(isinstance(instance, dict) for instance in listed):
            raise FactsError(f"resource config: Instances of group {group['Name']} is not a list of objects")
        pairs += [(group, instance) for instance in listed]
    return pairs


def find(resource_config: dict[str, Any], addresses: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the (instance group, instance) whose CustomerIpAddress is one of this node's `addresses`."""
    own = set(addresses)
    found = [pair for pair in instances(resource_config) if pair[1].get("CustomerIpAddress") in own]
    if len(found) != 1:
        listed = ", ".join(sorted(own)) or "none"
        raise FactsError(f"resource config: {len(found)} instances have one of this node's addresses ({listed})")
    return found[0]


def role(group: str, parameters: dict[str, Any]) -> str:
    """Returns controller, login or compute for an instance group's name; on Kubernetes every node is compute."""
    if parameters.get("orchestrator") == "hyperpod-slurm":
        if group == parameters.get("controller_group"):
            return "controller"
        if group == parameters.get("login_group"):
            return "login"
    return "compute"


def facts(resource_config: dict[str, Any], parameters: dict[str, Any], addresses: Iterable[str]) -> dict[str, str]:
    """Returns the environment that the steps run with; raises `FactsError`."""
    if parameters.get("version") != 1:
        raise FactsError(f"parameters: version {parameters.get('version')!r}, these scripts know version 1")
    group, _ = find(resource_config, addresses)
    controllers = [
        str(instance["CustomerIpAddress"])
        for other, instance in instances(resource_config)
        if role(other["Name"], parameters) == "controller" and instance.get("CustomerIpAddress")
    ]
    lustre, accounts = parameters.get("fsx") or {}, parameters.get("slurm_accounts") or {}
    return {
        "CLUSTER_NAME": str((resource_config.get("ClusterConfig") or {}).get("ClusterName", "unknown")),
        "NODE_GROUP": group["Name"],
        "NODE_ROLE": role(group["Name"], parameters),
        "INSTANCE_TYPE": str(group.get("InstanceType", "unknown")),
        "ORCHESTRATOR": str(parameters.get("orchestrator")),
        "CONTROLLER_ADDRESSES": ",".join(controllers),
        "FSX_DNS_NAME": str(lustre.get("dns_name", "")),
        "FSX_MOUNT_NAME": str(lustre.get("mount_name", "")),
        "FSX_MOUNT_PATH": str(lustre.get("mount_path", "")),
        "FSX_MOUNTED_BY": str(lustre.get("mounted_by", "")),
        "LUSTRE_EFA_INTERFACES": str((parameters.get("lustre_efa_interfaces") or {}).get(group["Name"], 0)),
        "SLURM_ACCOUNTS_S3_URI": str(accounts.get("s3_uri", "")),
        "SLURM_ACCOUNTS_REGION": str(accounts.get("region", "")),
        "HUGE_PAGES_2MIB": str(parameters.get("huge_pages_2mib", 0)),
    }


def main() -> int:
    resource_config, parameters = map(Path, sys.argv[1:])
    try:
        addresses = subprocess.run(["hostname", "-I"], check=True, capture_output=True, text=True).stdout.split()
        found = facts(read_json(resource_config), read_json(parameters), addresses)
    except (FactsError, OSError, subprocess.CalledProcessError) as error:
        print(f"[facts] {error}", file=sys.stderr)
        return 1
    for name, value in found.items():
        print(f"{name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
