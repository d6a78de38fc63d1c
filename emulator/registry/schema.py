"""AWS's published resource schemas: the properties of a resource, and the problems in them.

cfn-lint's package contains, per region, the schema of every resource type in the CloudFormation registry, with AWS's
own corrections applied (https://github.com/aws-cloudformation/resource-provider-enhanced-schemas). The format is
https://github.com/aws-cloudformation/cloudformation-resource-schema: JSON Schema plus the lists of read-only and
create-only properties and of the primary identifier. These lists make generic resources possible.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emulator.errors import UnrecognizedType

if TYPE_CHECKING:
    from cfnlint.jsonschema import ValidationError

Properties = dict[str, Any]
# Number of validation results that the schema of a type caches.
KEPT_ANSWERS = 256


class PropertyProblem(NamedTuple):
    """A problem of a resource's properties. `path` is a JSON pointer under Properties, or "" for all of them."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"#{self.path}: {self.reason}"


@dataclass(frozen=True)
class ResourceSchema:
    """The registry schema of one resource type in one region."""

    type_name: str
    document: dict[str, Any]

    @cached_property
    def primary_identifier(self) -> list[str]:
        """Return the names of the properties that identify a resource, in order, dotted if nested."""
        return [attribute_name(pointer) for pointer in self.document["primaryIdentifier"]]

    @cached_property
    def read_only(self) -> list[str]:
        """Return the dotted names of properties that only the service can set, which Fn::GetAtt can read."""
        return [attribute_name(pointer) for pointer in self.document.get("readOnlyProperties", [])]

    @cached_property
    def settable(self) -> set[str]:
        """Return the top-level properties that a template may set."""
        return set(self.document["properties"]) - set(self.read_only)

    def definition(self, attribute: str) -> dict[str, Any]:
        """Return the schema of a property by its dotted name, or {} if the schema does not describe it."""
        node = self.document
        for segment in attribute.split("."):
            node = self._follow(node)
            node = node.get("items", {}) if segment == "*" else node.get("properties", {}).get(segment, {})
        return self._follow(node)

    def coerce(self, properties: Properties) -> Properties:
        """Return the properties with scalars in the schema's type.

        CloudFormation takes "500" for 500, and true for "true".
        """
        coerced: Properties = self._coerce(properties, self.document)
        return coerced

    def problems(self, properties: Properties) -> list[PropertyProblem]:
        """Return all problems of resolved and coerced properties, sorted by path."""
        return list(self._problems_of(json.dumps(properties, default=str)))

    @cached_property
    def _problems_of(self) -> Callable[[str], tuple[PropertyProblem, ...]]:
        """Return the cached problems of properties as JSON. Successive change sets share most properties."""
        return lru_cache(maxsize=KEPT_ANSWERS)(lambda text: tuple(self._problems(json.loads(text))))

    def _problems(self, properties: Properties) -> list[PropertyProblem]:
        found = [
            PropertyProblem("/" + name.replace(".", "/"), "is read-only: AWS sets it, a template cannot")
            for name in self.read_only
            if values_at(properties, name)
        ]
        read_only_paths = {problem.path for problem in found}
        # Imported here, so that code that only reads schemas does not wait for cfn-lint.
        from emulator.registry import schema_keywords

        errors = schema_keywords.PropertyValidator(self.document).iter_errors(properties)
        for error in (cause for failure in errors for cause in _causes(failure)):
            path = "".join(f"/{segment}" for segment in schema_keywords.path(error))
            if path not in read_only_paths:
                found.append(PropertyProblem(path, schema_keywords.reason(error)))
        return sorted(set(found))

    def replacing(self, old: Properties, new: Properties) -> list[str]:
        """Return the create-only properties that differ. A resource with such differences has to be replaced."""
        create_only = [attribute_name(pointer) for pointer in self.document.get("createOnlyProperties", [])]
        return [name for name in create_only if values_at(old, name) != values_at(new, name)]

    def recreation(self, path: tuple[str, ...]) -> str:
        """Return whether a change at a path replaces the resource: Always, Conditionally, or Never."""
        for recreation, key in (
            ("Always", "createOnlyProperties"),
            ("Conditionally", "conditionalCreateOnlyProperties"),
        ):
            names = (attribute_name(pointer).split(".") for pointer in self.document.get(key, []))
            if any(_same_path(name, path) for name in names):
                return recreation
        return "Never"

    def _follow(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            target: Any = self.document
            for segment in node["$ref"].removeprefix("#/").split("/"):
                target = target[segment]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        return node

    def _coerce(self, value: Any, node: Any) -> Any:
        if not isinstance(node, dict):
            return value
        node = self._follow(node)
        if isinstance(value, dict):
            named, free = node.get("properties", {}), node.get("additionalProperties")
            by_pattern = next(iter(node.get("patternProperties", {}).values()), free)
            return {key: self._coerce(item, named.get(key, by_pattern)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._coerce(item, node.get("items")) for item in value]
        return _as_type(value, node.get("type"))


def _causes(error: ValidationError) -> list[ValidationError]:
    """Return the errors in the alternative (oneOf, anyOf) that comes closest, instead of "valid under none"."""
    branches: dict[Any, list[ValidationError]] = {}
    for item in error.context or []:
        branches.setdefault(item.schema_path[0], []).append(item)
    if not branches:
        return [error]
    closest = max(branches.values(), key=lambda items: (max(len(item.path) for item in items), -len(items)))
    return [cause for item in closest for cause in _causes(item)]


def _as_type(value: Any, expected: Any) -> Any:
    """Return `value` in the schema's scalar type if that loses nothing, otherwise unchanged, to be refused."""
    if expected == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if expected == "string" and isinstance(value, int | float):
        return str(value)
    if expected == "boolean" and value in ("true", "false"):
        return value == "true"
    if expected in ("integer", "number") and isinstance(value, str):
        for number in (int, float) if expected == "number" else (int,):
            try:
                return number(value)
            except ValueError:
                continue
    return value


def _same_path(name: list[str], path: tuple[str, ...]) -> bool:
    """Return whether one of the two paths leads to the other. "*" matches any item of a list."""
    return all(part in ("*", segment) for part, segment in zip(name, path, strict=False))


def attribute_name(pointer: str) -> str:
    """Return the spelling of Fn::GetAtt, for example "Lustre.Mode" for "/properties/Lustre/Mode"."""
    return pointer.removeprefix("/properties/").replace("/", ".")


def values_at(value: Any, attribute: str) -> list[Any]:
    """Return every value that a dotted name reaches. "*" goes through the items of a list."""
    if not attribute:
        return [value]
    head, _, rest = attribute.partition(".")
    if head == "*" and isinstance(value, list):
        return [found for item in value for found in values_at(item, rest)]
    if isinstance(value, dict) and head in value:
        return values_at(value[head], rest)
    return []


@cache
def load(type_name: str, region: str) -> ResourceSchema:
    """Return the schema of `type_name` in `region`.

    Raises UnrecognizedType if the region's registry does not have it, as CloudFormation does.
    """
    region = _elsewhere().get(type_name, {}).get("schema_region", region)
    digest = _registry(region).get(type_name)
    if digest is None:
        raise UnrecognizedType([type_name])
    text = (_schema_directory() / "resources" / f"{digest}.json").read_text(encoding="utf-8")
    return ResourceSchema(type_name, json.loads(text))


@cache
def _registry(region: str) -> dict[str, str]:
    """Return the schema files of one region, by type name."""
    path = _schema_directory() / "providers" / f"{region}.json"
    if not path.exists():
        raise UnrecognizedType([f"every type: {region!r} is not an AWS region that cfn-lint has schemas for"])
    registry: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return registry


@cache
def _elsewhere() -> dict[str, dict[str, str]]:
    """Return types that AWS offers in regions without cfn-lint's schema of them (reasons: schema_exceptions.json)."""
    text = Path(__file__).with_name("schema_exceptions.json").read_text(encoding="utf-8")
    exceptions: dict[str, dict[str, str]] = json.loads(text)
    return exceptions


@cache
def _schema_directory() -> Path:
    # Find the package without importing cfnlint, which takes most of a second.
    spec = importlib.util.find_spec("cfnlint")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("cfn-lint is not installed: pip install 'trainway[emulator]'")
    return Path(spec.submodule_search_locations[0]) / "data" / "schemas"
