"""Reads Kubernetes' own kinds by the schemas of a version of Kubernetes, with unknown fields refused.

The schemas are those of the kubernetes-validate package. Its own validator ignores the types of lists, which the API
server does not ignore for an object that is applied.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from referencing import Registry, Resource

from tests.seams.kubernetes.structural import FORMATS, Validator, refusals

VALUES = Path(__file__).with_name("core_values.yaml")


def core_refusals(document: dict[str, Any], version: str) -> list[str]:
    """Return why Kubernetes refuses an object of its own; raises SchemaNotFoundError for a kind that is not its own."""
    validator = _validator(document["apiVersion"], document["kind"], version)
    # A null is an absent field to the schemas, and to the API server an error of whoever meant to write a value.
    return [*refusals(validator, json.loads(json.dumps(document))), *_nulls("$", document)]


@cache
def _validator(api_version: str, kind: str, version: str) -> Any:
    from kubernetes_validate import utils

    minor = utils.major_minor(version)
    known = [each for each in utils.all_versions() if utils.major_minor(each) == minor]
    if not known:
        raise utils.VersionNotSupportedError(version=version)
    group, slash, api = api_version.rpartition("/")
    file = f"{kind.lower()}-{group.split('.')[0]}{'-' if slash else ''}{api}"
    folder = f"kubernetes-json-schema/v{known[-1]}-local-strict"
    try:
        schema = utils.schema_contents(f"{folder}/{file}.json", version)
    except FileNotFoundError:
        raise utils.SchemaNotFoundError(minor, kind, api_version) from None
    for field, words in _values()["kinds"].get(kind, {}).items():
        schema["properties"][field]["enum"] = words
    named = Resource.from_contents(schema) @ Registry()
    return Validator(schema, registry=_definitions(folder, version) @ named, format_checker=FORMATS)


@cache
def _definitions(folder: str, version: str) -> Any:
    """Return the types of a version, with what their schemas leave to the API server's own code (core_values.yaml)."""
    from kubernetes_validate import utils

    content = utils.schema_contents(f"{folder}/_definitions.json", version)
    types, values = content["$defs"], _values()
    types[values["quantity"]["type"]] = {
        "anyOf": [{"type": "number"}, {"type": "string", "pattern": values["quantity"]["pattern"]}]
    }
    for name, fields in values["enums"].items():
        for field, words in fields.items():
            found = types[name]["properties"][field]
            found.get("items", found)["enum"] = words
    return Resource.from_contents(content)


@cache
def _values() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    return values


def _nulls(path: str, node: Any) -> list[str]:
    if isinstance(node, dict):
        return [found for key, value in node.items() for found in _nulls(f"{path}.{key}", value)]
    if isinstance(node, list):
        return [found for index, value in enumerate(node) for found in _nulls(f"{path}[{index}]", value)]
    return [f"{path}: null"] if node is None else []


def metadata_refusals(metadata: dict[str, Any], version: str) -> list[str]:
    """Return why the metadata of an object of any kind is refused. A ServiceAccount has metadata and nothing else."""
    holder = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return core_refusals(holder, version)
