"""Debian's Prometheus, promtool, Alertmanager, and node_exporter, which `scripts/install_prometheus` installs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ports import free_port


def program(name: str) -> str:
    """Return the path of a program of Prometheus.

    Where the program is not installed, skip the test, or raise FileNotFoundError in continuous integration.
    """
    if found := shutil.which(name):
        return found
    reason = f"{name} is absent; scripts/install_prometheus installs it"
    if "CI" in os.environ:
        raise FileNotFoundError(reason)
    pytest.skip(reason, allow_module_level=True)


class Prometheus:
    """A Prometheus that scrapes targets on this machine."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def query(self, expression: str, at: int | None = None) -> list[tuple[dict[str, str], float]]:
        """Return the labels and the value of each series of an expression at a time; nothing before it has started.

        Default: the newest value.
        """
        asked = {"query": expression} | ({} if at is None else {"time": str(at)})
        found = self._asked("query", asked)
        return [(each["metric"], float(each["value"][1])) for each in found]

    def over_time(self, expression: str, times: range) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Return the labels of each series of an expression, with its values at these times."""
        asked = {"query": expression, "start": times.start, "end": times.stop, "step": times.step}
        found = self._asked("query_range", {name: str(value) for name, value in asked.items()})
        return [(each["metric"], [(at, float(value)) for at, value in each["values"]]) for each in found]

    def _asked(self, how: str, asked: dict[str, str]) -> Any:
        try:
            with urllib.request.urlopen(
                f"{self.address}/api/v1/{how}?{urllib.parse.urlencode(asked)}", timeout=60
            ) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # It has not read its store yet.
                return []
            raise ValueError(f"{asked['query']}: {error.read().decode()}") from None
        except OSError:
            return []

    def answer(self, expression: str, seconds: float = 300) -> list[tuple[dict[str, str], float]]:
        """Return what `query` returns, as soon as that is something.

        A series can be absent while another one of the same target is there: an agent sends a scrape in parts, and a
        scrape that failed ends a series until the next one. Raises TimeoutError after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not (found := self.query(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} has no answer after {seconds} s")
            time.sleep(0.2)
        return found


@contextlib.contextmanager
def prometheus(directory: Path, *targets: int, rules: Path | None = None) -> Iterator[Prometheus]:
    """Run Debian's Prometheus, which scrapes ports of this machine each second, with files in a directory."""
    port, configuration = free_port(), directory / "prometheus.yml"
    scraped = {"job_name": "trainway", "static_configs": [{"targets": [f"127.0.0.1:{each}" for each in targets]}]}
    document: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "200ms"},
        "scrape_configs": [scraped],
    }
    configuration.write_text(yaml.safe_dump(document | ({"rule_files": [str(rules)]} if rules else {})))
    command = [program("prometheus"), f"--config.file={configuration}", f"--web.listen-address=127.0.0.1:{port}"]
    with subprocess.Popen([*command, f"--storage.tsdb.path={directory / 'tsdb'}", "--log.level=error"]) as running:
        try:
            yield Prometheus(port)
        finally:
            running.terminate()
