"""Which Regions and zones exist, and which instance types AWS has there.

The table is in offerings.json, one line per Region or type. JSON is read a hundred times faster than YAML, and the
table has 5,000 pairs of types and zones. `python -m trainway.spec.refresh_offerings` compares it with an account's
answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from trainway.spec.facts.files import FACTS

FILE = FACTS / "offerings.json"


@dataclass(frozen=True)
class Offerings:
    """AWS's Regions, their zones by id, and where instance types are to be had."""

    read: date
    """The day of the newest of the sources."""
    zones: Mapping[str, tuple[str, ...]]
    """Every Region, and its zones. Of some Regions the zones are not known: they have none here."""
    offered: Mapping[str, frozenset[str]]
    """The zones in which EC2 has an instance type, in one way of sale or another."""
    on_demand: Mapping[str, frozenset[str]]
    """The Regions in which EC2 has an on-demand price for an instance type."""
    hyperpod: Mapping[str, frozenset[str]]
    """The Regions in which SageMaker has a price for an instance type of a HyperPod cluster."""

    def region_of(self, zone: str) -> str | None:
        """Return the Region of a zone id, or None for a zone that is not known."""
        return next((region for region, zones in self.zones.items() if zone in zones), None)

    def regions_with(self, instance_type: str) -> list[str]:
        """Return the Regions in which EC2 has an instance type, in alphabetical order."""
        found = {self.region_of(zone) for zone in self.offered.get(instance_type, ())}
        return sorted(region for region in found if region)

    def zones_with(self, instance_type: str, region: str) -> list[str]:
        """Return the zones of a Region in which EC2 has an instance type, in alphabetical order."""
        return sorted(self.offered.get(instance_type, frozenset()) & set(self.zones.get(region, ())))


@cache
def load_offerings(file: Path = FILE) -> Offerings:
    """Return the table in a file, by default Trainway's own. Each process reads it once."""
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))

    def sets(name: str) -> dict[str, frozenset[str]]:
        return {instance_type: frozenset(found) for instance_type, found in table[name].items()}

    return Offerings(
        read=max(date.fromisoformat(source["read"]) for source in table["sources"]),
        zones={region: tuple(zones) for region, zones in table["zones"].items()},
        offered=sets("offered"),
        on_demand=sets("on_demand"),
        hyperpod=sets("hyperpod"),
    )


def as_text(sources: Iterable[Mapping[str, str]], tables: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    """Return the content of offerings.json: the sources, and each table with one line per Region or type."""
    parts = ['  "sources": [\n' + ",\n".join(f"    {json.dumps(dict(source))}" for source in sources) + "\n  ]"]
    for name, table in tables.items():
        lines = [f"    {json.dumps(key)}: {json.dumps(sorted(found))}" for key, found in sorted(table.items())]
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"
