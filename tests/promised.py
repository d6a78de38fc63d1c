"""`python -m tests.promised` adds to releases/promised.yaml the logical IDs that no release may change any more.

CloudFormation knows a resource by its logical ID. One with another ID is another resource: the old one is deleted, with
its data, and the new one cannot be created while the old one has its name. The list is reviewed like code. The command
never takes an ID off the list: whoever does so by hand says in CHANGELOG.md what a deploy loses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from emulator.registry.schema import load
from tests.synthesis import EXAMPLES, ROOT, Template, templates_of

PROMISED: Final = ROOT / "releases" / "promised.yaml"
HEADER = "# Logical IDs that no release changes, by example, stack, and ID. `python -m tests.promised` adds new ones.\n"
# Resources that hold data, or that running nodes and jobs stand on.
STATEFUL: Final = (
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCCidrBlock",
    "AWS::ECR::Repository",
    "AWS::EKS::Cluster",
    "AWS::EKS::Nodegroup",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::FSx::FileSystem",
    "AWS::KMS::Key",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Cluster",
    "AWS::SNS::Topic",
)
# By stack and logical ID, the type.
Ids = dict[str, dict[str, str]]


def promised_ids(stacks: Mapping[str, Template]) -> Ids:
    """Return the resources with data, and those with a name that only a replacement changes."""
    found = {
        role: {
            name: resource["Type"]
            for name, resource in sorted(template["Resources"].items())
            if resource["Type"] in STATEFUL or _is_named(resource)
        }
        for role, template in sorted(stacks.items())
    }
    return {role: ids for role, ids in found.items() if ids}


def _is_named(resource: Mapping[str, Any]) -> bool:
    """Whether the template gives the resource the name by which its service knows it, and which cannot be changed."""
    schema = load(resource["Type"], "us-west-2")
    named = set(resource.get("Properties", {}))
    return any(
        name in named and schema.recreation((name,)) == "Always" and name.endswith("Name") and name != "ClusterName"
        for name in schema.primary_identifier
    )


def read_promised() -> dict[str, Ids]:
    """Return the list by example."""
    loaded: dict[str, Ids] = yaml.safe_load(PROMISED.read_text(encoding="utf-8")) if PROMISED.exists() else {}
    return loaded


def broken(promised: Ids, made: Mapping[str, Template]) -> Iterator[str]:
    """Yield what is promised of an example and is not in its templates any more."""
    for role, ids in promised.items():
        resources = made.get(role, {}).get("Resources", {})
        for name, kind in ids.items():
            if (now := resources.get(name, {}).get("Type")) != kind:
                yield f"{role}/{name} is {now or 'gone'}, and was promised as {kind}"


def main() -> None:
    """Add the new IDs of every example."""
    promised = read_promised()
    for example in EXAMPLES:
        kept = promised.setdefault(example.stem, {})
        for role, ids in promised_ids(templates_of(example)).items():
            kept[role] = dict(sorted({**ids, **kept.get(role, {})}.items()))
    PROMISED.parent.mkdir(exist_ok=True)
    PROMISED.write_text(HEADER + yaml.safe_dump(promised, width=1000), encoding="utf-8")


if __name__ == "__main__":
    main()
