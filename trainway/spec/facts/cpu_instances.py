"""The instance types without accelerators, which cpu_instances.json has as EC2 answered them.

The file has one line per type. JSON is read a hundred times faster than YAML, and there are 950 of them.
`python -m trainway.spec.refresh_cpu_instances` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainway.spec.facts.files import FACTS

FILE: Final = FACTS / "cpu_instances.json"
# What a line has, in this order. Memory is in GiB, rounded down, disks are in GB, and bandwidth is in Gb/s. The last
# column says whether HyperPod takes the type.
COLUMNS: Final = (
    *("architecture", "vcpus", "memory_gib", "network_gbps", "network_cards"),
    *("primary_card_interfaces", "ipv4_addresses_per_interface", "disks", "gb_each", "hyperpod"),
)
RecordedFacts = Sequence[Any]


def read_rows(file: Path = FILE) -> dict[str, RecordedFacts]:
    """Return the line of each instance type."""
    rows: dict[str, RecordedFacts] = json.loads(file.read_text(encoding="utf-8"))["types"]
    return rows


def entry_of(row: RecordedFacts) -> dict[str, Any]:
    """Return a line as an entry of the catalogue, of the family `cpu`."""
    facts = dict(zip(COLUMNS, row, strict=True))
    disks, gb_each = facts.pop("disks"), facts.pop("gb_each")
    store = {"disks": disks, "gb_each": gb_each} if disks else None
    return {**facts, "family": "cpu", "instance_store": store, "hyperpod": bool(facts["hyperpod"])}


def as_text(sources: Iterable[Mapping[str, str]], rows: Mapping[str, RecordedFacts]) -> str:
    """Return the content of the file, the types of a family in the order of their vCPUs."""
    vcpus = COLUMNS.index("vcpus")
    ordered = sorted(rows.items(), key=lambda each: (each[0].partition(".")[0], each[1][vcpus], each[0]))
    parts = ['  "sources": [\n' + ",\n".join(f"    {json.dumps(dict(source))}" for source in sources) + "\n  ]"]
    parts.append(f'  "columns": {json.dumps(list(COLUMNS))}')
    parts.append(
        '  "types": {\n' + ",\n".join(f'    "{name}": {json.dumps(list(row))}' for name, row in ordered) + "\n  }"
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"
