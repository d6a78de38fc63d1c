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
    given = [name for name in FSX if text(name)]
    if given and len(given) < len(FSX):
        mistakes.append(f"{', '.join(name for name in FSX if name not in given)} empty while {', '.join(given)} is set")
    if text("FSX_MOUNTED_BY") not in ("", "service", "script"):
        mistakes.append(f"FSX_MOUNTED_BY is '{text('FSX_MOUNTED_BY')}', expected service or script")
    pages = text("HUGE_PAGES_2MIB") or "0"
    if not pages.isdecimal():
        mistakes.append(f"HUGE_PAGES_2MIB is '{pages}', expected a whole number of pages")
    uri, region = text("SLURM_ACCOUNTS_S3_URI"), text("SLURM_ACCOUNTS_REGION")
    if bool(uri) != bool(region):
        mistakes.append(f"SLURM_ACCOUNTS_S3_URI is '{uri}' while SLURM_ACCOUNTS_REGION is '{region}'")
    try:
        over_efa = json.loads(text("LUSTRE_EFA_INTERFACES") or "{}")
    except json.JSONDecodeError as error:
        mistakes.append(f"LUSTRE_EFA_INTERFACES is no JSON: {error}")
    if mistakes:
        raise ValueError("; ".join(mistakes))
    lustre = {name.removeprefix("FSX_").lower(): text(name) for name in FSX}
    return {
        "version": 1,
        "orchestrator": orchestrator,
        "controller_group": text("CONTROLLER_GROUP") or None,
        "login_group": text("LOGIN_GROUP") or None,
        "fsx": lustre if given else None,
        "lustre_efa_interfaces": over_efa,
        "huge_pages_2mib": int(pages),
        "slurm_accounts": {"s3_uri": uri, "region": region} if uri else None,
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
