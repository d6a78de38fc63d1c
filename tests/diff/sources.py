"""What three publications say about properties that only the creation of a resource can set.

None of the three is complete. The registry's schemas of types without handlers, AWS::FSx::FileSystem for example, list
a few properties only. The AWS CDK's database takes the words of the documentation, which follow the services late. The
models of the services say what an update can change, and not what CloudFormation makes of it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.loaders

from emulator.registry.schema import attribute_name, load
from tests.seams.test_documents_of_templates import DOCUMENTS
from tests.synthesis import ROOT

DATABASE = ROOT / "node_modules" / "aws-cdk" / "db.json.gz"
# Operations that create and update, by resource type. Other services have names that differ from the properties.
OPERATIONS = {
    "AWS::EKS::AccessEntry": ("eks", "CreateAccessEntry", ("UpdateAccessEntry",)),
    "AWS::EKS::Addon": ("eks", "CreateAddon", ("UpdateAddon",)),
    "AWS::EKS::Cluster": ("eks", "CreateCluster", ("UpdateClusterConfig", "UpdateClusterVersion")),
    "AWS::EKS::Nodegroup": ("eks", "CreateNodegroup", ("UpdateNodegroupConfig", "UpdateNodegroupVersion")),
    "AWS::EKS::PodIdentityAssociation": ("eks", "CreatePodIdentityAssociation", ("UpdatePodIdentityAssociation",)),
    "AWS::FSx::DataRepositoryAssociation": (
        "fsx", "CreateDataRepositoryAssociation", ("UpdateDataRepositoryAssociation",),
    ),
    "AWS::FSx::FileSystem": ("fsx", "CreateFileSystem", ("UpdateFileSystem",)),
    "AWS::SageMaker::Cluster": ("sagemaker", "CreateCluster", ("UpdateCluster",)),
}  # fmt: skip
# Every service tags by operations of its own.
TAGS = "Tags"
DEEPEST = 6


def types() -> list[str]:
    """Return the resource types of the templates."""
    return sorted(DOCUMENTS)


def registry(kind: str) -> dict[str, str]:
    """Return the create-only properties that the registry's schema lists, with `always` or `conditional`."""
    document = load(kind, "us-west-2").document
    words = {"conditionalCreateOnlyProperties": "conditional", "createOnlyProperties": "always"}
    return {
        attribute_name(pointer).replace(".*", ""): word
        for key, word in words.items()
        for pointer in document.get(key, [])
    }


@cache
def cdk(kind: str) -> dict[str, str]:
    """Return the properties whose change replaces a resource by the AWS CDK's database, with `yes` or `maybe`."""
    database = _database()
    resource = next((each for each in database["resource"] if each["cloudFormationType"] == kind), None)
    definitions = {each["$id"]: each for each in database["typeDefinition"]}
    return dict(_replacing(resource, definitions)) if resource else {}


def service(kind: str) -> set[str] | None:
    """Return the properties that the service's creation takes and no update does; None where names do not compare."""
    if kind not in OPERATIONS:
        return None
    name, create, updates = OPERATIONS[kind]
    shapes = _model(name)["shapes"]
    operations = _model(name)["operations"]
    inputs = [operations[each]["input"]["shape"] for each in (create, *updates)]
    return {path for path in _never_updated(shapes, inputs[0], inputs[1:]) if _is_property(kind, path)}


def _replacing(
    node: dict[str, Any], definitions: dict[str, Any], path: str = "", seen: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    for name, described in node["properties"].items():
        below = f"{path}.{name}" if path else name
        replaces = described.get("causesReplacement", "no")
        if replaces != "no":
            yield below, replaces
        reference = _reference(described["type"])
        if replaces != "yes" and reference and reference not in seen and len(seen) < DEEPEST:
            yield from _replacing(definitions[reference], definitions, below, (*seen, reference))


def _reference(described: Any) -> str | None:
    """Return the id of the structure that a type of the database is, or has items of."""
    while described.get("type") in ("array", "map"):
        described = described["element"]
    return described["reference"]["$ref"] if described.get("type") == "ref" else None


def _never_updated(shapes: dict[str, Any], create: str, updates: list[str], path: str = "") -> Iterator[str]:
    for name, member in shapes[create].get("members", {}).items():
        capitalized = name[0].upper() + name[1:]
        below = f"{path}.{capitalized}" if path else capitalized
        in_updates = [
            shapes[update]["members"][name]["shape"] for update in updates if name in shapes[update].get("members", {})
        ]
        if not in_updates:
            yield below
        elif shapes[member["shape"]]["type"] == "structure" and member["shape"] not in in_updates:
            yield from _never_updated(shapes, member["shape"], in_updates, below)


def _is_property(kind: str, path: str) -> bool:
    return path != TAGS and bool(load(kind, "us-west-2").definition(path))


@cache
def _model(name: str) -> dict[str, Any]:
    model: dict[str, Any] = botocore.loaders.Loader().load_service_model(name, "service-2")
    return model


@cache
def _database() -> dict[str, list[dict[str, Any]]]:
    schema = json.loads(gzip.decompress(DATABASE.read_bytes()))["schema"]
    return {key: schema[key]["entities"] for key in ("resource", "typeDefinition")}
