"""Which keys a chart's own values have: a key that they do not have is read by no template."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.seams.charts.installed import Installed, Values, leaves


def own_values(chart: Path) -> Values:
    """Return the values.yaml of an unpacked chart, with those of its sub-charts below the sub-charts' names.

    A sub-chart reads its own keys. No template reads a key that only the parent has below the sub-chart's name, except
    the conditions that switch a sub-chart on.
    """
    values: Values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8")) or {}
    declared = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8")).get("dependencies") or []
    conditions = [path for each in declared for path in each.get("condition", "").strip().split(",") if path]
    switches = {path: value for path in conditions if (value := _at(values, path.split("."))) is not None}
    for name, below in _sub_charts(chart):
        for each in declared or [{"name": name}]:
            if each["name"] == name:
                values[each.get("alias", name)] = below
    for path, value in switches.items():
        *parents, last = path.split(".")
        at = values
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value
    return values


def unknown_keys(installed: Installed, own: Mapping[str, Any]) -> list[str]:
    """Return the paths that Trainway sets and that the chart's own values do not have.

    A value that the chart leaves empty, such as `affinity: {}`, accepts any keys.
    """
    return [".".join(path) for path, _ in leaves(installed.values) if not _has(own, path)]


def _has(own: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not own or not isinstance(own, dict):
            # An empty object or null is the chart's way to let the user write any keys.
            return own is None or own == {}
        if key not in own:
            return False
        own = own[key]
    return True


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        if not isinstance(values, dict):
            return None
        values = values.get(key)
    return values


def _sub_charts(chart: Path) -> Iterator[tuple[str, Values]]:
    for place in sorted((chart / "charts").glob("*")):
        if (place / "Chart.yaml").exists():
            name = yaml.safe_load((place / "Chart.yaml").read_text(encoding="utf-8"))["name"]
            yield name, own_values(place) if (place / "values.yaml").exists() else {}
        elif place.suffix == ".tgz":
            with tarfile.open(place) as archive:
                top = archive.getnames()[0].split("/")[0]
                read = archive.extractfile(f"{top}/values.yaml")
                yield top, (yaml.safe_load(read.read()) or {}) if read else {}
