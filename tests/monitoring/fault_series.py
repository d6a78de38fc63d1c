"""Planted series for promtool's clock, and for a real Prometheus that has them stored."""

from __future__ import annotations

import contextlib
import math
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.monitoring.faults import Values
from tests.ports import free_port
from tests.prometheus import program

STEP_SECONDS = 30


def values_text(values: Values, fault: float, seconds: float) -> str:
    """Return the values of a series in promtool's notation: one every half a minute, from 0 on."""
    found: list[str] = []
    ended = False
    for number in range(int(seconds / STEP_SECONDS) + 1):
        value = values(number * STEP_SECONDS, fault)
        found.append("_" if value is None and (ended or not found) else "stale" if value is None else repr(value))
        ended = value is None
    return " ".join(each.replace("nan", "NaN") for each in found)


def stored(directory: Path, series: Mapping[str, Values], fault: float, seconds: float) -> Path:
    """Write series that end now to a database of Prometheus, and return its directory."""
    start = time.time() - seconds
    by_metric: dict[str, list[str]] = {}
    for name, values in series.items():
        # OpenMetrics has no spaces between labels.
        written = name.replace(", ", ",")
        lines = by_metric.setdefault(name.partition("{")[0], [])
        for number in range(int(seconds / STEP_SECONDS) + 1):
            at = start + number * STEP_SECONDS
            # A series that holds a time is given the fault's.
            value = values(at, start + fault)
            if value is not None:
                lines.append(f"{written} {'NaN' if math.isnan(value) else value} {at:.3f}")
    text = directory / "series.txt"
    text.write_text("\n".join(line for lines in by_metric.values() for line in lines) + "\n# EOF\n")
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(directory / "tsdb")]
    subprocess.run(command, check=True, capture_output=True)
    return directory / "tsdb"


@contextlib.contextmanager
def evaluated(directory: Path, database: Path, rules: list[dict[str, Any]], alert_manager: str) -> Iterator[None]:
    """Run a Prometheus with stored series, which evaluates rules every second and does not wait for their minutes."""
    at_once = [{**each, "for": "0s"} for each in rules]
    (directory / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "deployed", "interval": "1s", "rules": at_once}]})
    )
    configuration = {
        "rule_files": [str(directory / "rules.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alert_manager]}]}]},
    }
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    command = [program("prometheus"), f"--config.file={directory}/prometheus.yaml", "--log.level=error"]
    command += [f"--web.listen-address=127.0.0.1:{free_port()}", f"--storage.tsdb.path={database}"]
    # The first alerts are lost: Prometheus finds Alertmanager some seconds after it has started.
    command.append("--rules.alert.resend-delay=1s")
    with subprocess.Popen(command) as running:
        try:
            yield
        finally:
            running.kill()
