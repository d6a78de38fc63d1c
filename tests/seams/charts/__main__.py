"""Render every chart in every shape, and write facts.yaml.

    python -m tests.seams.charts

pulls each chart whose renders facts.yaml does not have. An archive NAME-VERSION.tgz in build/charts takes the place of
the published one. All other charts keep their facts.

    python -m tests.seams.charts DIRECTORY

pulls nothing. DIRECTORY holds each chart unpacked in a folder of its name, with its sub-charts. A published manifest is
NAME.yaml. A chart of which only another version can be had is rendered all the same, and the facts say which version
that was. A chart that DIRECTORY does not have keeps its facts, if nothing that decides its renders has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.seams.charts.facts import FILE, Facts, read_facts
from tests.seams.charts.installed import Installed, Values, installed_charts, leaves
from tests.seams.charts.pull import pull
from tests.seams.charts.render import render, rendered
from tests.seams.charts.values_of_charts import own_values, unknown_keys
from tests.seams.shapes import kubernetes_platforms
from tests.synthesis import ROOT

ARCHIVES = ROOT / "build" / "charts"
HEAD = "# Written by `python -m tests.seams.charts`. Do not edit: what a chart renders is a fact.\n"


def facts(directory: Path) -> dict[str, Any]:
    """Render every chart of every example and shape, and return the facts by chart.

    Raises SystemExit with every key that no template reads, and CalledProcessError if Helm refuses a chart.
    """
    known = read_facts()
    by_chart: dict[str, Any] = {}
    problems: set[str] = set()
    for installed in every_installed():
        if _is_absent(installed, directory) and (render := _kept(installed, known)):
            kept = {**known[installed.chart], "renders": {}}
            by_chart.setdefault(installed.chart, kept)["renders"][installed.digest] = render
            continue
        of_chart = by_chart.setdefault(installed.chart, _origin(installed, directory))
        if installed.digest in of_chart["renders"]:
            continue
        found = rendered(installed, directory)
        workloads = [each._asdict() for each in found.workloads]
        of_chart["renders"][installed.digest] = {"images": found.images, "workloads": workloads}
        dead = dead_keys(installed, directory)
        problems |= {f"{installed.chart}: no template reads the value {key}" for key in dead}
        alive = {".".join(path) for path, _ in leaves(installed.values)} - set(dead)
        of_chart["keys"] = sorted({*of_chart["keys"], *alive})
    if problems:
        raise SystemExit("\n".join(sorted(problems)))
    return by_chart


def every_installed() -> Iterator[Installed]:
    """Yield each chart of each example and shape."""
    for platform in kubernetes_platforms().values():
        yield from installed_charts(platform)


def pull_missing(archives: Path, directory: Path) -> None:
    """Pull each chart that has no render with the values of some platform. Arguments and errors are those of `pull`."""
    known = read_facts()
    missing = {each.chart: each.entry for each in every_installed() if not _kept(each, known)}
    for entry in missing.values():
        pull(entry, archives, directory)


def _is_absent(installed: Installed, directory: Path) -> bool:
    file = f"{installed.chart}.yaml" if "manifest" in installed.entry else f"{installed.chart}/Chart.yaml"
    return not (directory / file).exists()


def _kept(installed: Installed, known: Facts) -> Any:
    return known.get(installed.chart, {}).get("renders", {}).get(installed.digest)


def dead_keys(installed: Installed, directory: Path) -> list[str]:
    """Return the keys that the chart's own values lack and whose value changes nothing in the render.

    A chart may read a key that its values only mention in a comment, so the render decides about those.
    """
    if "manifest" in installed.entry:
        return []
    unknown = unknown_keys(installed, own_values(directory / installed.chart))
    whole = render(installed, directory) if unknown else ""
    return [key for key in unknown if render(with_another(installed, key), directory) == whole]


def with_another(installed: Installed, key: str) -> Installed:
    """Return the same installation with another value for one key: a longer text, the opposite, or none."""
    return Installed(installed.entry, _with_another(installed.values, key.split(".")))


def _with_another(values: Values, path: list[str]) -> Values:
    first, *rest = path
    old = values[first]
    if rest:
        return {**values, first: _with_another(old, rest)}
    return {**values, first: not old if isinstance(old, bool) else f"{old}-other" if isinstance(old, str) else None}


def _origin(installed: Installed, directory: Path) -> dict[str, Any]:
    """Return which chart is rendered: the pinned version, the version at hand, and the checksum of its files."""
    chart = directory / installed.chart
    pinned = installed.entry["version"]
    if "manifest" in installed.entry:
        chart = chart.with_name(f"{chart.name}.yaml")
        sha256 = hashlib.sha256(chart.read_bytes()).hexdigest()
        if sha256 != installed.entry["manifest"]["sha256"]:
            raise SystemExit(f"{chart} is not the manifest that delivery/mirror.yaml pins")
        return {"pinned": pinned, "rendered": pinned, "sha256": sha256, "keys": [], "renders": {}}
    if not (chart / "Chart.yaml").exists():
        raise SystemExit(f"{directory} has no chart {installed.chart} {pinned}; {__doc__}")
    version = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))["version"]
    return {"pinned": pinned, "rendered": version, "sha256": _checksum(chart), "keys": [], "renders": {}}


def _checksum(chart: Path) -> str:
    total = hashlib.sha256()
    for file in sorted(each for each in chart.rglob("*") if each.is_file()):
        total.update(f"{file.relative_to(chart).as_posix()}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def written(by_chart: Mapping[str, Any]) -> str:
    """Return the facts as YAML: one line a workload, so that a change is readable."""
    return HEAD + yaml.safe_dump(dict(by_chart), sort_keys=True, width=10_000, default_flow_style=None)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, help="a directory of unpacked charts. Default: pull charts")
    given = parser.parse_args().directory
    with tempfile.TemporaryDirectory() as pulled:
        if given is None:
            pull_missing(ARCHIVES, Path(pulled))
        try:
            found = facts(given or Path(pulled))
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{' '.join(map(str, error.cmd))}\n{error.stderr}") from None
    FILE.write_text(written(found), encoding="utf-8")


if __name__ == "__main__":
    main()
