"""Prints parameters.json, what a node's lifecycle scripts must know of the platform, from environment variables.

It must not be called provisioning_parameters.json: HyperPod refuses a cluster that has both such a file at its
SourceS3Uri and a SlurmConfig in the API.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-slurm-api-config-migration.html (read 2026-11-21)
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

ORCHESTRATORS = ("hyperpod-slurm", "hyperpod-eks")
FSX = ("FSX_DNS_NAME", "FSX_MOUNT_NAME", "FSX_MOUNT_PATH", "FSX_MOUNTED_BY")
HOMES = ("HOMES_DNS_NAME", "HOMES_MOUNT_PATH", "HOMES_MOUNTED_BY")


def parameters(environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns the document; raises `ValueError` with every mistake in `environment`."""

    def text(name: str) -> str:
        return environment.get(name, "").strip()

    mistakes = []
    orchestrator = text("ORCHESTRATOR")
    if orchestrator not in ORCHESTRATORS:
        mistakes.append(f"ORCHESTRATOR is '{orchestrator}', expected one of {', '.join(ORCHESTRATORS)}")
    if orchestrator == "hyperpod-slurm" and not text("CONTROLLER_GROUP"):
        mistakes.append("CONTROLLER_GROUP is empty: a Slurm cluster needs the instance group of its controller")
    for together in (FSX, HOMES):
        given = [name for name in together if text(name)]
        if given and len(given) < len(together):
            lacking = ", ".join(name for name in together if name not in given)
            mistakes.append(f"{lacking} empty while {', '.join(given)} is set")
        if text(together[-1]) not in ("", "service", "script"):
            mistakes.append(f"{together[-1]} is '{text(together[-1])}', expected service or script")
    if text("CONTAINERS") not in ("", "required", "wanted", "none"):
        mistakes.append(f"CONTAINERS is '{text('CONTAINERS')}', expected required, wanted or none")
    if text("EXPORTERS") not in ("", "true", "false"):
        mistakes.append(f"EXPORTERS is '{text('EXPORTERS')}', expected true or false")
    pages = text("HUGE_PAGES_2MIB") or "0"
    if not pages.isdecimal():
        mistakes.append(f"HUGE_PAGES_2MIB is '{pages}', expected a whole number of pages")
    uri, region = text("SLURM_ACCOUNTS_S3_URI"), text("SLURM_ACCOUNTS_REGION")
    if bool(uri) != bool(region):
        mistakes.append(f"SLURM_ACCOUNTS_S3_URI is '{uri}' while SLURM_ACCOUNTS_REGION is '{region}'")
    users_uri, users_region = text("SLURM_USERS_S3_URI"), text("SLURM_USERS_REGION")
    if bool(users_uri) != bool(users_region):
        mistakes.append(f"SLURM_USERS_S3_URI is '{users_uri}' while SLURM_USERS_REGION is '{users_region}'")
    try:
        over_efa = json.loads(text("LUSTRE_EFA_INTERFACES") or "{}")
    except json.JSONDecodeError as error:
        mistakes.append(f"LUSTRE_EFA_INTERFACES is no JSON: {error}")
    try:
        directory = json.loads(text("SLURM_DIRECTORY") or "null")
    except json.JSONDecodeError as error:
        mistakes.append(f"SLURM_DIRECTORY is no JSON: {error}")
    try:
        slurm = json.loads(text("SLURM_NODES") or "null")
    except json.JSONDecodeError as error:
        mistakes.append(f"SLURM_NODES is no JSON: {error}")
    if mistakes:
        raise ValueError("; ".join(mistakes))
    lustre = {name.removeprefix("FSX_").lower(): text(name) for name in FSX}
    homes = {name.removeprefix("HOMES_").lower(): text(name) for name in HOMES}
    return {
        "version": 1,
        "orchestrator": orchestrator,
        "controller_group": text("CONTROLLER_GROUP") or None,
        "login_group": text("LOGIN_GROUP") or None,
        "fsx": lustre if text("FSX_DNS_NAME") else None,
        "homes": homes if text("HOMES_DNS_NAME") else None,
        "containers": text("CONTAINERS") or "none",
        "exporters": text("EXPORTERS") == "true",
        "lustre_efa_interfaces": over_efa,
        "huge_pages_2mib": int(pages),
        "slurm": slurm,
        "slurm_accounts": {"s3_uri": uri, "region": region} if uri else None,
        "slurm_users": {"s3_uri": users_uri, "region": users_region} if users_uri else None,
        "directory": directory,
    }


def main() -> int:
    try:
        document = parameters(os.environ)
    except ValueError as error:
        print(f"lifecycle parameters: {error}", file=sys.stderr)
        return 2
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
