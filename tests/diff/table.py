"""The table of create-only properties, made of its sources: `python -m tests.diff.table` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import yaml

from emulator.registry.schema import load
from tests.diff import sources
from tests.synthesis import ROOT
from trainway.diff.create_only import TABLE

HEADER = """\
# Whether CloudFormation replaces a resource when a property changes, for every type of the templates. The table has
# three sources, of which none is complete: `python -m tests.diff.table` writes it, and a test compares it.
"""
# What no source says, or what they say wrongly.
BY_HAND: dict[tuple[str, str], dict[str, str]] = {
    ("AWS::FSx::FileSystem", "StorageType"): {
        "verdict": "unknown",
        "note": "UpdateFileSystem takes StorageType for FSx for Windows File Server alone.",
    },
    ("AWS::FSx::FileSystem", "LustreConfiguration.PerUnitStorageThroughput"): {
        "verdict": "unknown",
        "note": "FSx changes it in place. Whether CloudFormation asks FSx for that is in docs/unproven.md.",
    },
}


def table() -> dict[str, Any]:
    """Return the table's sources, without their dates, and its types."""
    return {"sources": _publications(), "types": {kind: dict(sorted(_verdicts(kind))) for kind in sources.types()}}


def _verdicts(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    registry, cdk, service = sources.registry(kind), sources.cdk(kind), sources.service(kind)
    handled = "handlers" in load(kind, "us-west-2").document
    by_hand = {path: entry for (owner, path), entry in BY_HAND.items() if owner == kind}
    for path in {*registry, *cdk, *(service or ()), *by_hand}:
        says = {"registry": registry.get(path), "cdk": cdk.get(path), "service": _service_says(path, service)}
        entry = {"verdict": _verdict(says, handled=handled), "says": {key: word for key, word in says.items() if word}}
        yield path, entry | by_hand.get(path, {})


def _service_says(path: str, service: set[str] | None) -> str | None:
    if service is None:
        return None
    return "never updated" if path in service else "updated"


def _verdict(says: dict[str, str | None], *, handled: bool) -> str:
    if says["registry"]:
        return "replace" if says["registry"] == "always" else "conditional"
    if says["cdk"] and says["service"] == "never updated":
        return "replace"
    # CloudFormation updates by the handlers of a type, of which the registry's schema is the description.
    if handled and says["service"] == "updated":
        return "in place"
    return "unknown"


def _publications() -> dict[str, dict[str, str]]:
    return {
        "registry": {
            "what": f"CloudFormation registry's schemas, of cfn-lint {version('cfn-lint')}",
            "url": "https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html",
        },
        "cdk": {
            "what": "AWS CDK's database of resource types, of the package aws-cdk",
            "url": "https://github.com/cdklabs/awscdk-service-spec",
        },
        "service": {
            "what": f"models of the services' APIs, of botocore {version('botocore')}",
            "url": "https://github.com/boto/botocore/tree/develop/botocore/data",
        },
    }


def written() -> dict[str, Any]:
    """Return the table as it is in the tree, with its dates."""
    document: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return document


def write() -> None:
    """Write the table. A source gets the day of today if what follows from it is another than before."""
    made = table()
    before = written() if TABLE.exists() else {"sources": {}, "types": {}}
    today = datetime.now(UTC).date().isoformat()
    for name, source in made["sources"].items():
        said = before["sources"].get(name, {})
        unchanged = before["types"] == made["types"] and {**source, "compared": said.get("compared")} == said
        source["compared"] = said["compared"] if unchanged else today
    text = yaml.safe_dump(made, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    TABLE.write_text(HEADER + text, encoding="utf-8")
    print(TABLE.relative_to(ROOT))


if __name__ == "__main__":
    write()
