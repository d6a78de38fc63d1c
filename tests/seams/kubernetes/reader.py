"""Reads any object that Trainway renders by the definition of its kind, with all that is embedded in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.seams.kubernetes import admission, core, pods
from tests.seams.kubernetes.definitions import data, definitions, schema_of
from tests.seams.kubernetes.hyperpod_job import hyperpod_job_refusals
from tests.seams.kubernetes.metadata import metadata_refusals
from tests.seams.kubernetes.structural import FORMATS, Validator, refusals, strict, with_defaults

Kind = tuple[str, str]
OPERATOR_CHECKS = Path(__file__).with_name("operator_checks.yaml")
# How many objects of each kind were read, those that are embedded in others too.
READ: Counter[str] = Counter()


def read(document: dict[str, Any], version: str) -> list[str]:
    """Return why the object is refused by the API server of a Kubernetes version; empty if it is accepted.

    Raises SchemaNotFoundError for a kind that neither Kubernetes nor a definition has.
    """
    plain = json.loads(json.dumps(document))
    kind = (plain["apiVersion"], plain["kind"])
    READ[" ".join(kind)] += 1
    metadata = plain.get("metadata")
    name = f"{kind[1]} {metadata.get('name') if isinstance(metadata, dict) else ''}"
    # What reads a document further takes its types for granted.
    found = _by_its_definition(kind, plain, version) or [*metadata_refusals(plain), *_by_its_operator(kind, plain)]
    embedded = () if found else (each for part in _embedded(kind, plain) for each in read(part, version))
    return [f"{name}: {each}" for each in (*found, *embedded)]


def _by_its_definition(kind: Kind, document: dict[str, Any], version: str) -> list[str]:
    package = data()["package"]
    if kind in definitions():
        schema, validator = _structural(kind)
        return [
            *refusals(validator, with_defaults(schema, document)),
            *core.metadata_refusals(document.get("metadata", {}), version),
        ]
    if kind == (package["api_version"], package["kind"]):
        return [*hyperpod_job_refusals(document), *_wrapped({"type": "object"}, document, version)]
    if kind in _documented():
        return _wrapped(strict(_documented()[kind]), document, version)
    return core.core_refusals(document, version) or [*admission.refusals(document), *pods.refusals(document)]


def _by_its_operator(kind: Kind, document: dict[str, Any]) -> list[str]:
    check = _operator_checks().get(" ".join(kind))
    return refusals(Draft202012Validator(check["schema"]), document) if check else []


def _wrapped(spec: dict[str, Any], document: dict[str, Any], version: str) -> list[str]:
    """Read an object of which only the `spec` has a schema."""
    whole = {"type": "object", "required": ["spec"], "properties": {"spec": spec}, "additionalProperties": False}
    rest = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    return [
        *refusals(Validator(whole, format_checker=FORMATS), rest),
        *core.metadata_refusals(document.get("metadata", {}), version),
    ]


@cache
def _structural(kind: Kind) -> tuple[dict[str, Any], Any]:
    schema = schema_of(definitions()[kind])
    return schema, Validator(strict(schema, root=True), format_checker=FORMATS)


@cache
def _operator_checks() -> dict[str, Any]:
    checks: dict[str, Any] = yaml.safe_load(OPERATOR_CHECKS.read_text(encoding="utf-8"))
    return checks


@cache
def _documented() -> dict[Kind, dict[str, Any]]:
    return {(each["api_version"], each["kind"]): _spec_of(each) for each in data()["documented"]}


def _spec_of(documented: dict[str, Any]) -> dict[str, Any]:
    if "file" not in documented:
        return dict(documented["spec"])
    loaded: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(documented["file"]).read_text(encoding="utf-8"))
    return loaded


def _embedded(kind: Kind, document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each embedded object under a name, which a template has none of."""
    for path, what in _embeds(kind).items():
        api_version, _, name = what.partition(" ")
        for part in _at(document, path.split(".")):
            metadata = {"name": "embedded", **part.get("metadata", {})}
            yield {**part, "apiVersion": api_version, "kind": name, "metadata": metadata}


def _embeds(kind: Kind) -> dict[str, str]:
    package = data()["package"]
    if kind == (package["api_version"], package["kind"]):
        return dict(package["embeds"])
    if kind in definitions():
        return definitions()[kind].embeds
    found = [each for each in data()["documented"] if (each["api_version"], each["kind"]) == kind]
    return dict(found[0].get("embeds", {})) if found else {}


def _at(node: Any, path: list[str]) -> Iterator[Any]:
    """Yield what is at a path, in which `[]` stands for each item and `{}` for each value."""
    if not path:
        yield node
        return
    key = path[0].rstrip("[]{}")
    inner = node.get(key) if isinstance(node, dict) else None
    if inner is None:
        return
    items = [inner] if key == path[0] else inner.values() if isinstance(inner, dict) else inner
    for item in items:
        yield from _at(item, path[1:])
