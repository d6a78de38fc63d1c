"""What a render of every chart in every shape taught, in facts.yaml, so that the tests need no chart.

`python -m tests.seams.charts` renders the charts and rewrites the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.seams.charts.installed import Installed, installed_charts, leaves
from tests.seams.charts.judge import controller_problems, image_problems, room_problems, taint_problems
from tests.seams.charts.render import Rendered, Workload
from trainway.spec.platform import Platform

FILE = Path(__file__).with_name("facts.yaml")
REFRESH = "run `python -m tests.seams.charts`, which pulls and renders it"
Facts = Mapping[str, Any]


@cache
def read_facts() -> Facts:
    """Return facts.yaml: by chart, its keys, and by the digest of the values, the images and the workloads."""
    loaded: Facts = yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return loaded


def remembered(installed: Installed, facts: Facts) -> Rendered | None:
    """Return what the chart is rendered to, or None if it was never rendered with these values in this version."""
    found = facts.get(installed.chart, {}).get("renders", {}).get(installed.digest)
    return Rendered(found["images"], [Workload(**each) for each in found["workloads"]]) if found else None


def key_problems(installed: Installed, facts: Facts) -> Iterator[str]:
    """Yield each key that Trainway sets and that the chart's own values and templates do not have."""
    known = set(facts.get(installed.chart, {}).get("keys", []))
    for path, _ in leaves(installed.values):
        if ".".join(path) not in known:
            yield f"{installed.chart}: no template reads the value {'.'.join(path)}"


def platform_problems(platform: Platform, facts: Facts) -> list[str]:
    """Return everything that is wrong with the charts of a platform, by the facts."""
    problems: list[str] = []
    charts: list[tuple[Installed, Rendered]] = []
    for installed in installed_charts(platform):
        problems += key_problems(installed, facts)
        if found := remembered(installed, facts):
            problems += image_problems(installed, found)
            problems += taint_problems(platform, installed, found)
            problems += controller_problems(platform, installed, found)
            charts.append((installed, found))
        else:
            problems.append(f"{installed.chart} was not rendered with these values ({installed.digest}): {REFRESH}")
    return problems + room_problems(platform, charts)
