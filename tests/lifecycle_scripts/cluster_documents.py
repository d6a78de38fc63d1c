"""What a node is told of its cluster: HyperPod's description, and the parameters of a platform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LUSTRE = {
    "dns_name": "fs-1.fsx.us-west-2.amazonaws.com",
    "mount_name": "abc",
    "mount_path": "/fsx",
    "mounted_by": "script",
}


def default_parameters(groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the parameters.json of a Slurm platform whose provisioning is its own."""
    return {
        "orchestrator": "hyperpod-slurm",
        "controller_group": "controller",
        "login_groups": ["login"] if "login" in groups else [],
        "fsx": LUSTRE,
        "lustre_efa_interfaces": {},
        "slurm_accounts": None,
    }


def resource_config(nodes: Iterable[tuple[str, str]], types: Mapping[str, str]) -> dict[str, Any]:
    """Return the cluster as HyperPod describes it to its nodes, each given by its group and its address.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-lifecycle-best-practices-slurm-slurm-base-config.html
    (read 2026-11-22)
    """
    groups: dict[str, list[dict[str, str]]] = {}
    for number, (group, address) in enumerate(nodes):
        instances = groups.setdefault(group, [])
        instances.append(
            {
                "InstanceName": f"{group}-{len(instances) + 1}",
                "AgentIpAddress": f"169.254.0.{address.rpartition('.')[2]}",
                "CustomerIpAddress": address,
                "InstanceId": f"i-{number:017x}",
            }
        )
    return {
        "ClusterConfig": {
            "ClusterArn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefgh1234",
            "ClusterName": "atlas",
        },
        "InstanceGroups": [
            {"Name": name, "InstanceType": types.get(name, "ml.m5.xlarge"), "Instances": instances}
            for name, instances in groups.items()
        ],
    }
