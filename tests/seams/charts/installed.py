"""What `delivery/cluster.sh` gives to Helm for each chart of a platform."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from delivery.mirror_list import images_of, set_words
from tests.synthesis import ROOT
from trainway.manifests.chart_values import chart_values
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.platform import Platform

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
PREFIX = f"{REGISTRY}/atlas/mirror"
REGION = "us-west-2"
Values = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Installed:
    """A chart with the values that a platform installs it with.

    `entry` is the chart's entry in delivery/mirror.yaml. `values` are those of delivery/values, then the platform's,
    then the `--set-string` words, merged as Helm merges them.
    """

    entry: Mapping[str, Any]
    values: Values

    @property
    def chart(self) -> str:
        """The chart's name in delivery/mirror.yaml."""
        return str(self.entry["chart"])

    @property
    def digest(self) -> str:
        """A hash of what decides the render: the chart's entry, less its sources, the values, and the images' tags."""
        entry = {key: value for key, value in self.entry.items() if key not in ("source", "read", "elsewhere")}
        tags = [image["tag"] for image in images_of([dict(self.entry)], mirror())]
        said = [entry, self.values, tags]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


@cache
def mirror() -> dict[str, Any]:
    """Return delivery/mirror.yaml."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "delivery/mirror.yaml").read_text(encoding="utf-8"))
    return loaded


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of instance types."""
    return load_catalogue()


def installed_charts(platform: Platform) -> Iterator[Installed]:
    """Yield what the platform installs, in its order. A published manifest without a chart has no values."""
    of_platform = chart_values(platform, catalogue())
    for name in chart_names(platform, catalogue()):
        [entry] = [each for each in mirror()["charts"] if each["chart"] == name]
        if "manifest" in entry:
            yield Installed(entry, {})
            continue
        file = ROOT / "delivery/values" / f"{name}.yaml"
        static = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
        values = merged(
            merged(static, of_platform.get(name, {})), spoken(set_words(entry, mirror()["images"], PREFIX, REGION))
        )
        yield Installed(entry, values)


def spoken(words: list[str]) -> Values:
    """Return the values that `--set-string KEY=VALUE` words set."""
    values: Values = {}
    for word in words[1::2]:
        key, _, text = word.partition("=")
        *parents, last = key.split(".")
        at = values
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = text
    return values


def merged(below: Values, above: Values) -> Values:
    """Return the values of `above` over those of `below`: objects are merged, and anything else is replaced."""
    both = dict(below)
    for key, value in above.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both


def leaves(values: Values, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value that is not an object, or is an empty one, with its path."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*at, key))
        else:
            yield (*at, key), value
