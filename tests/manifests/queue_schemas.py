"""What the API server would say of an object, by a file of the fields that its kind has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (read 2026-11-21)
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
WORDS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    # Checked as a pod, with all that Kubernetes knows of it.
    "pod template": {"type": "object", "required": ["spec"]},
    "name": {"type": "string", "maxLength": 253, "pattern": SUBDOMAIN},
    # https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ (read 2026-11-21)
    "quantity": {"type": ["integer", "string"], "pattern": r"^[+-]?\d+(\.\d+)?([KMGTPE]i|[numkMGTPE])?$"},
    # https://pkg.go.dev/time#ParseDuration (read 2026-11-21)
    "duration": {"type": "string", "pattern": r"^(\d+(\.\d+)?(h|m|s|ms))+$"},
}
METADATA = {"name!": "name", "namespace": "name", "labels": {"*": "string"}, "annotations": {"*": "string"}}


@cache
def schemas(file: str = "queue_schemas.yaml") -> dict[tuple[str, str], Draft202012Validator]:
    """A validator by apiVersion and kind."""
    entries = yaml.safe_load(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return {(each["api"], each["kind"]): Draft202012Validator(_object(each)) for each in entries}


def refusals(manifest: dict[str, Any], file: str = "queue_schemas.yaml") -> list[str]:
    """Why the object would be refused, by its key; raises KeyError for a kind that has no schema."""
    found = schemas(file)[manifest["apiVersion"], manifest["kind"]].iter_errors(manifest)
    return [f"{error.json_path}: {error.message}" for error in found]


def _object(entry: dict[str, Any]) -> dict[str, Any]:
    return _schema({"apiVersion!": entry["api"], "kind!": entry["kind"], "metadata!": METADATA, **entry["fields"]})


def _schema(node: Any) -> dict[str, Any]:
    if isinstance(node, list):
        return {"type": "array", "items": _schema(node[0])}
    if isinstance(node, dict):
        if "*" in node:
            return {"type": "object", "additionalProperties": _schema(node["*"])}
        return {
            "type": "object",
            "properties": {key.removesuffix("!"): _schema(value) for key, value in node.items()},
            "required": [key.removesuffix("!") for key in node if key.endswith("!")],
            "additionalProperties": False,
        }
    return WORDS.get(node) or {"enum": node.split(" | ")}
