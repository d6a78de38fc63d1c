"""Which Regions and zones exist, and which instance types AWS has there.

The table is in offerings.json, one line per Region or family, and one per type that is elsewhere than most of its
family. JSON is read a hundred times faster than YAML, and there are 50,000 pairs of types and zones.
`python -m trainway.spec.refresh_offerings` compares the table with an account's answers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from trainway.spec.facts.files import FACTS

FILE = FACTS / "offerings.json"


@dataclass(frozen=True)
class ByFamily:
    """Zones or Regions of instance types. Types without a line of their own have that of their family."""

    lines: Mapping[str, Iterable[str]]

    def of(self, instance_type: str) -> frozenset[str]:
        """Return the zones or Regions of an instance type, or none for one that is not known."""
        own = self.lines.get(instance_type)
        return frozenset(self.lines.get(family_of(instance_type), ()) if own is None else own)


def family_of(instance_type: str) -> str:
    """Return the family of an instance type: `g6e` for g6e.xlarge."""
    return instance_type.partition(".")[0]


def sizes_of(types: Iterable[str]) -> list[str]:
    """Return the values of an EC2 filter for all sizes of the families of instance types, for example `g6e.*`.

    There are a thousand types, and a filter takes fewer values.
    """
    return sorted({f"{family_of(name)}.*" for name in types})


def by_family(types: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return zones or Regions of instance types as lines: one per family, and one per type that differs from it."""
    families = dict[str, dict[str, list[str]]]()
    for name, found in types.items():
        families.setdefault(family_of(name), {})[name] = sorted(found)
    lines = dict[str, list[str]]()
    for family, members in families.items():
        counted = Counter(tuple(found) for _, found in sorted(members.items()))
        most = list(counted.most_common(1)[0][0])
        lines[family] = most
        lines |= {name: found for name, found in members.items() if found != most}
    return lines


@dataclass(frozen=True)
class Offerings:
    """AWS's Regions, their zones by id, and where instance types are available."""

    read: date
    """The day of the newest of the sources."""
    zones: Mapping[str, tuple[str, ...]]
    """Every Region, and its zones. Of some Regions the zones are not known: they have none here."""
    local_zones: Mapping[str, tuple[str, ...]]
    """The Local Zones of Regions in which EC2 has accelerated types of the catalogue."""
    offered: ByFamily
    """The zones in which EC2 has an instance type, in one way of sale or another."""
    on_demand: ByFamily
    """The Regions in which EC2 has an on-demand price for an instance type."""
    hyperpod: ByFamily
    """The Regions in which SageMaker has a price for an instance type of a HyperPod cluster."""

    def region_of(self, zone: str) -> str | None:
        """Return the Region of a zone id, or None for a zone that is not known."""
        return next((region for region, zones in self.zones.items() if zone in zones), None)

    def zones_and_local_zones_with(self, instance_type: str, region: str) -> list[str]:
        """Return the zones of a Region in which EC2 has an instance type, the Local Zones at the end."""
        local = self.offered.of(instance_type) & set(self.local_zones.get(region, ()))
        return [*self.zones_with(instance_type, region), *sorted(local)]

    def regions_with(self, instance_type: str) -> list[str]:
        """Return the Regions in which EC2 has an instance type, in alphabetical order."""
        found = {self.region_of(zone) for zone in self.offered.of(instance_type)}
        return sorted(region for region in found if region)

    def zones_with(self, instance_type: str, region: str) -> list[str]:
        """Return the zones of a Region in which EC2 has an instance type, in alphabetical order."""
        return sorted(self.offered.of(instance_type) & set(self.zones.get(region, ())))


@cache
def load_offerings(file: Path = FILE) -> Offerings:
    """Return the table in a file, by default Trainway's own. Each process reads it once."""
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Offerings(
        read=max(date.fromisoformat(source["read"]) for source in table["sources"]),
        zones={region: tuple(zones) for region, zones in table["zones"].items()},
        local_zones={region: tuple(zones) for region, zones in table["local_zones"].items()},
        offered=ByFamily(table["offered"]),
        on_demand=ByFamily(table["on_demand"]),
        hyperpod=ByFamily(table["hyperpod"]),
    )


def as_text(sources: Iterable[Mapping[str, str]], tables: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    """Return the content of offerings.json: the sources, and each table with one line per Region, family, or type."""
    parts = ['  "sources": [\n' + ",\n".join(f"    {json.dumps(dict(source))}" for source in sources) + "\n  ]"]
    for name, table in tables.items():
        lines = [f"    {json.dumps(key)}: {json.dumps(sorted(found))}" for key, found in sorted(table.items())]
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"
