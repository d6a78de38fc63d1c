"""The instance catalogue: what AWS publishes about each EC2 instance type, with the source pages.

The facts are in instances.yaml, and those of types without accelerators in cpu_instances.json. A new type is one entry
in one of them. Everything else that depends on an instance type (launch
template, subnet size, pods, ranks, quotas) is a function of what this module returns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainway.spec.facts.cpu_instances import RecordedFacts, entry_of, read_rows
from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import (
    FACT_GROUPS,
    Accelerator,
    CapacityKind,
    Disagreement,
    Instance,
    InstanceStore,
    InterfaceKind,
    NetworkInterface,
    Source,
)

__all__ = [
    "FACT_GROUPS",
    "Accelerator",
    "CapacityKind",
    "Catalogue",
    "CatalogueError",
    "Disagreement",
    "Instance",
    "InstanceStore",
    "InterfaceKind",
    "NetworkInterface",
    "Source",
    "load_catalogue",
]


class CatalogueError(ValueError):
    """The catalogue file violates its own rules. The message names the entry, the problem, and the fix."""


class Catalogue(Mapping[str, Instance]):
    """Instance types by their EC2 name.

    `disagreements` lists where EC2's own API differs and the catalogue uses another source. `left_out` lists
    accelerated types, and families of them, that are missing on purpose, and why. `when_asked` has functions that make
    further instance types: a platform names a few of the thousand.
    """

    def __init__(
        self,
        instances: Mapping[str, Instance],
        disagreements: Iterable[Disagreement] = (),
        left_out: Mapping[str, str] | None = None,
        when_asked: Mapping[str, Callable[[], Instance]] | None = None,
    ) -> None:
        self._instances = dict(instances)
        self._when_asked = {name: make for name, make in (when_asked or {}).items() if name not in instances}
        self._names = (*self._instances, *self._when_asked)
        self.disagreements = tuple(disagreements)
        self.left_out = dict(left_out or {})

    def __getitem__(self, name: str) -> Instance:
        if name not in self._instances:
            self._instances[name] = self._when_asked[name]()
        return self._instances[name]

    def __contains__(self, name: object) -> bool:
        return name in self._instances or name in self._when_asked

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def family(self, name: str) -> list[Instance]:
        """Return the instance types of a family, for example `g6e`, by their vCPUs, and metal sizes at the end."""
        found = [self[each] for each in self if each.partition(".")[0] == name]
        return sorted(found, key=lambda each: ("metal" in each.name, each.vcpus, each.memory_gib))

    def why_left_out(self, name: str) -> str | None:
        """Return why a type, or its family, is missing on purpose, or None."""
        return self.left_out.get(name) or self.left_out.get(name.partition(".")[0])

    def suggest(self, name: str) -> list[str]:
        """Return up to three names closest to one that is not in the catalogue, best first. May be empty."""
        bare = name.strip().lower().removeprefix("ml.")
        if bare in self:
            return [bare]
        sizes = [each for each in self if each.startswith(f"{bare}.")]
        return sizes[:3] or difflib.get_close_matches(bare, list(self), n=3)


@cache
def load_catalogue(path: Path | None = None) -> Catalogue:
    """Return the catalogue in a file, by default Trainway's own, and the types without accelerators.

    Each process reads it once. Raises CatalogueError for an entry that is incomplete, contradicts itself, or names no
    source for its facts.
    """
    file = path or FACTS / "instances.yaml"
    data: dict[str, Any] = read_facts(file)
    try:
        sources = {name: Source.model_validate(source) for name, source in data["sources"].items()}
    except ValidationError as error:
        raise CatalogueError(f"{file.name}: sources: {_first(error)}") from None
    instances = {}
    for name, entry in data["instances"].items():
        try:
            instances[name] = _instance(name, entry, data, sources)
        except ValidationError as error:
            raise CatalogueError(f"{file.name}: {name}: {_first(error)}") from None
        except KeyError as error:
            raise CatalogueError(f"{file.name}: {name}: {error} is missing") from None
        except CatalogueError as error:
            raise CatalogueError(f"{file.name}: {name}: {error}") from None
    try:
        disagreements = [Disagreement.model_validate(each) for each in data.get("disagreements", ())]
    except ValidationError as error:
        raise CatalogueError(f"{file.name}: disagreements: {_first(error)}") from None
    when_asked = {name: partial(_recorded, name, row, data, sources) for name, row in read_rows().items()}
    return Catalogue(instances, disagreements, data.get("left_out"), when_asked)


def _recorded(name: str, row: RecordedFacts, data: dict[str, Any], sources: Mapping[str, Source]) -> Instance:
    return _instance(name, entry_of(row), data, sources)


def _instance(name: str, entry: dict[str, Any], data: dict[str, Any], sources: Mapping[str, Source]) -> Instance:
    family = _look_up(data, "families", entry.get("family"))
    facts = {"name": name, "accelerator": None, "instance_store": None, **family, **entry}
    cited = {**family.get("sources", {}), **entry.get("sources", {})}
    del facts["family"]

    if chip := facts["accelerator"]:
        model = _look_up(data, "accelerators", chip.get("model"))
        described = {**model, **chip}
        facts["accelerator"] = {fact: described[fact] for fact in described if fact not in ("model", "sources")}
        cited["accelerator"] = [*cited.get("accelerator", ()), *model.get("sources", ())]
    layout = _look_up(data, "layouts", facts.pop("layout", None))
    facts["interfaces"] = _expand(layout["interfaces"], facts.get("network_cards", 1))
    cited["layout"] = layout.get("sources")
    limits = data["pod_limits"]
    facts["pod_limit"] = limits["small" if facts.get("vcpus", 0) < limits["below_vcpus"] else "large"]
    cited["pods"] = limits.get("sources")
    facts["hyperpod_name"] = f"ml.{name}" if facts.pop("hyperpod", False) else None
    facts["hyperpod_quota_code"] = data.get("hyperpod_quota_codes", {}).get(facts["hyperpod_name"])

    facts["sources"] = {group: _cited(group, cited.get(group), sources) for group in FACT_GROUPS}
    return Instance.model_validate(facts)


def _look_up(data: dict[str, Any], section: str, name: str | None) -> dict[str, Any]:
    if name not in data[section]:
        known = ", ".join(data[section])
        raise CatalogueError(f"`{section}` has no {name}; name one of {known}, or add it")
    found: dict[str, Any] = data[section][name]
    return found


def _expand(layout: list[dict[str, Any]], network_cards: int) -> list[NetworkInterface]:
    """Return one interface for each card that a rule of the layout covers: a card, a list of cards, or `first-last`."""
    interfaces = []
    for rule in layout:
        cards = rule["cards"]
        if isinstance(cards, str):
            first, last = cards.split("-")
            cards = range(int(first), network_cards if last == "last" else int(last) + 1)
        for card in [cards] if isinstance(cards, int) else cards:
            described = {"network_card_index": card, "device_index": rule["device"], "kind": rule["kind"]}
            interfaces.append(NetworkInterface.model_validate(described))
    return interfaces


def _cited(group: str, names: list[str] | None, sources: Mapping[str, Source]) -> tuple[Source, ...]:
    if not names:
        facts = ", ".join(FACT_GROUPS[group])
        raise CatalogueError(f"no source is named for {facts}; add one under `sources` and name it as `{group}`")
    for name in names:
        if name not in sources:
            raise CatalogueError(
                f"`{group}` names {name}, which is not under `sources`; add its url, title and day read"
            )
    return tuple(sources[name] for name in names)


def _first(error: ValidationError) -> str:
    """Return Pydantic's first error in one line."""
    detail = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in detail["loc"])
    return f"{key}: {detail['msg']}" if key else detail["msg"]
