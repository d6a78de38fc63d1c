"""Records of resources: from a schema and a template's properties, the model that AWS would report.

A model is a resource's properties plus the values that only the service knows (IDs, ARNs, endpoints). Ref and
Fn::GetAtt read it. Values that no emulated service reports are made up here in the form of the schema, so every type in
the registry works without code of its own. Made-up values exist only in the model.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import regex

from emulator.errors import CloudFormationError
from emulator.registry.regex_examples import example
from emulator.registry.schema import Properties, ResourceSchema, values_at

# Types whose Ref is not the primary identifier, from "Return values" of the type's page in the template reference,
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/ (2026-11): aws-resource-codebuild-project,
# -ec2-eip, -ec2-vpccidrblock, -events-rule, -iam-policy. For a node group: https://github.com/aws/aws-cdk/issues/22442.
REF_EXCEPTIONS = {
    "AWS::CodeBuild::Project": "{Name}",
    "AWS::EC2::EIP": "{PublicIp}",
    "AWS::EC2::VPCCidrBlock": "{Id}",
    "AWS::EKS::Nodegroup": "{ClusterName}/{NodegroupName}",
    "AWS::Events::Rule": "{Name}",
    "AWS::IAM::Policy": "{PolicyName}",
}

# IDs whose form is not in the resource schema but in the patterns of the FSx API (botocore 1.44, fsx FileSystemId and
# DataRepositoryAssociationId). The EC2 and EKS ones look like those in the consoles.
ID_PREFIXES = {
    "AWS::EC2::FlowLog": "fl",
    "AWS::EC2::PlacementGroup": "pg",
    "AWS::EKS::PodIdentityAssociation": "a",
    "AWS::FSx::DataRepositoryAssociation": "dra",
}
# Services whose ARNs have no region: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html (2026-11).
GLOBAL_SERVICES = {"budgets", "cloudfront", "iam", "organizations", "route53"}
# Name properties that are neither the identifier nor called <Type>Name or Name.
NAMED_BY = {"AWS::EC2::SecurityGroup": "GroupName"}
SETTLED = ("InService", "Created", "ACTIVE", "Active", "AVAILABLE", "Available", "READY", "Ready", "ENABLED")


class Names:
    """Generated IDs and names of one resource. They are random, but always the same for this resource."""

    def __init__(self, account: str, region: str, stack: str, logical_id: str) -> None:
        self.account, self.region, self.stack, self.logical_id = account, region, stack, logical_id
        self.token = uuid.uuid4().hex

    def physical_name(self, definition: dict[str, Any]) -> str:
        """Return stack-logicalid-TOKEN, CloudFormation's form of names, as the property's schema allows it."""
        limit = min(definition.get("maxLength", 64), 64)
        suffix = self.token[:12].upper()
        plain = f"{self.stack}-{self.logical_id}"
        candidates = [f"{plain[: limit - 13]}-{suffix}", f"{plain[: limit - 13]}-{suffix}".lower()]
        candidates += [self.token[:limit], self.token[:12]]
        return next((name for name in candidates if conforms(name, definition)), candidates[0])

    def value(self, schema: ResourceSchema, attribute: str, model: Properties) -> Any:
        """Return a plausible value for a read-only attribute, in the form of its schema."""
        definition = schema.definition(attribute)
        kind = definition.get("type", "string")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind in ("integer", "number"):
            return max(1, definition.get("minimum", 1))
        if kind == "boolean":
            return False
        if kind == "array":
            return []
        if kind == "object":
            return {}
        if "enum" in definition:
            return next((state for state in SETTLED if state in definition["enum"]), definition["enum"][0])
        for text in self._texts(schema, attribute.rsplit(".", 1)[-1], model):
            if conforms(text, definition):
                return text
        return example(definition["pattern"]) if "pattern" in definition else self.token[:17]

    def _texts(self, schema: ResourceSchema, name: str, model: Properties) -> Iterator[str]:
        """Yield guesses at a string attribute, the likeliest first."""
        _, service, resource = schema.type_name.split("::")
        service, kind = service.lower(), re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", resource).lower()
        named = [model[key] for key in (f"{resource}Name", "Name") if isinstance(model.get(key), str)]
        short_ids = [self.token[:12], self.token[:17], self.token[:10], str(uuid.UUID(self.token))]
        id_prefix = ID_PREFIXES.get(schema.type_name, kind)
        if name.lower().endswith("arn"):
            prefix = f"arn:aws:{service}:{'' if service in GLOBAL_SERVICES else self.region}:{self.account}:"
            yield from (f"{prefix}{kind}/{last}" for last in [*named, *short_ids])
            yield from (f"{prefix}{resource.lower()}/{last}" for last in [*named, *short_ids])
            yield from (f"{prefix}{kind.split('-')[-1]}/{last}" for last in [*named, *short_ids])
        elif name.endswith(("Date", "Time", "Timestamp", "At")):
            yield datetime.now(UTC).isoformat(timespec="seconds")
        elif name.lower().endswith(("endpoint", "url", "uri")):
            yield f"https://{self.token[:12]}.{service}.{self.region}.amazonaws.com/"
        elif "dns" in name.lower() or "domain" in name.lower():
            yield f"{self.token[:17]}.{service}.{self.region}.amazonaws.com"
        elif "status" in name.lower() or name == "State":
            yield from SETTLED
        elif "message" in name.lower() or "reason" in name.lower():
            yield ""
        elif "version" in name.lower():
            yield "1"
        elif "name" in name.lower():
            yield from named
            yield self.physical_name({})
        yield f"{id_prefix}-{self.token[:17]}"
        yield from short_ids


def conforms(text: str, definition: dict[str, Any]) -> bool:
    """Return whether a string fits its schema."""
    if not definition.get("minLength", 0) <= len(text) <= definition.get("maxLength", 2048):
        return False
    try:
        return bool(regex.search(definition.get("pattern", ""), text))
    except regex.error:
        return True


def default_names(schema: ResourceSchema, properties: Properties, names: Names) -> Properties:
    """Return the names that the template left to CloudFormation: the settable identifier, and <Type>Name or Name."""
    resource = schema.type_name.rsplit("::", 1)[-1]
    wanted = [name for name in schema.primary_identifier if name in schema.settable]
    other = (f"{resource}Name", "Name", NAMED_BY.get(schema.type_name))
    wanted += [name for name in other if name in schema.settable]
    definitions = {name: schema.definition(name) for name in wanted if name not in properties}
    return {
        name: names.physical_name(definition)
        for name, definition in definitions.items()
        if definition.get("type", "string") == "string" and "enum" not in definition
    }


def complete(schema: ResourceSchema, model: Properties, names: Names) -> Properties:
    """Return the model with a value for every read-only attribute that was not set."""
    completed = dict(model)
    for attribute in schema.read_only:
        head, _, rest = attribute.partition(".")
        if "*" in attribute or values_at(completed, attribute) or (rest and head in completed):
            continue
        value: Any = names.value(schema, attribute, completed)
        for segment in reversed(rest.split(".") if rest else []):
            value = {segment: value}
        completed[head] = _merge(completed.get(head), value)
    return completed


def _merge(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _merge(old.get(key), value) for key, value in new.items()}}
    return new


def physical_id(schema: ResourceSchema, model: Properties) -> str:
    """Return the Ref: the primary identifier, its parts joined with "|", or the documented exception."""
    if schema.type_name in REF_EXCEPTIONS:
        return REF_EXCEPTIONS[schema.type_name].format_map(model)
    parts = [str(value) for name in schema.primary_identifier for value in values_at(model, name)]
    return "|".join(parts)


def attribute(schema: ResourceSchema, model: Properties, name: str) -> Any:
    """Return the Fn::GetAtt of a resource whose type has the attribute.

    Raises CloudFormationError if it has no value, which happens for a property that the template does not set.
    """
    values = values_at(model, name)
    if not values:
        raise CloudFormationError(
            f"Attribute {name} of a {schema.type_name} has no value: the template does not set it"
        )
    return values[0]


def has_attribute(schema: ResourceSchema, name: str, region: str) -> bool:
    """Return whether Fn::GetAtt may read `name`: what AWS sets, and for some types also what the template sets."""
    if any(name == known or name.startswith(f"{known}.") for known in schema.read_only):
        return True
    # cfn-lint keeps the list of those types. Its import takes most of a second, so it happens only here.
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    return PROVIDER_SCHEMA_MANAGER.get_type_getatts(schema.type_name, region).get(name) is not None
