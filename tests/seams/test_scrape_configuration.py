"""Validate the scrape configuration of the AWS managed collector."""

from __future__ import annotations

import base64
import copy
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.monitoring.test_scraping import written
from tests.prometheus import program
from tests.seams.resolved import deployed, deployed_of
from tests.seams.seam import Planted, Seam

Document = dict[str, Any]
COLLECTED = "collected-metrics"


def problems(document: Document, directory: Path) -> Sequence[str]:
    """Return the errors that promtool reports for the configuration."""
    done = subprocess.run(
        [program("promtool"), "check", "config", written(document, directory)], capture_output=True, text=True
    )
    return [] if done.returncode == 0 else [done.stdout + done.stderr]


def configurations() -> Iterator[Document]:
    """Yield the configuration of each collector in the templates."""
    for platform in deployed().values():
        for scraper in platform.of_type("AWS::APS::Scraper").values():
            yield _decoded(scraper)


def _decoded(scraper: Document) -> Document:
    text = base64.b64decode(scraper["ScrapeConfiguration"]["ConfigurationBlob"], validate=True)
    loaded: Document = yaml.safe_load(text)
    return loaded


def test_promtool_takes_the_configuration_of_every_collector(tmp_path: Path) -> None:
    found = list(configurations())
    assert found
    assert [problem for each in found for problem in problems(each, tmp_path)] == []


def planted(error: str, change: Callable[[list[Document]], Any]) -> Planted:
    """Plant an error in the jobs of a collector's configuration."""

    def read(broken: bool, directory: Path) -> Sequence[str]:
        (scraper,) = deployed_of(COLLECTED).of_type("AWS::APS::Scraper").values()
        document = _decoded(scraper)
        if broken:
            change(document["scrape_configs"])
        return problems(document, directory)

    return Planted(error, sound=partial(read, False), broken=partial(read, True))


SEAMS = (
    Seam(
        artifact="Scrape configuration of the AWS managed collector",
        rendered_by="trainway/monitoring/scraping.py",
        reader="promtool of Prometheus, with the discovered pods in a file. `tests/monitoring/test_scraping.py` "
        "scrapes exporters with it",
        instead="The collector runs only in AWS.",
        planted=(
            planted("a key of a job is misspelled", lambda jobs: jobs[0].update(metrics_pat="/metrics")),
            planted("two jobs have one name", lambda jobs: jobs.append(copy.deepcopy(jobs[0]))),
            planted(
                "an expression has no closing bracket",
                lambda jobs: jobs[0]["relabel_configs"][0].update(regex="(a"),
            ),
            planted(
                "an action is none of Prometheus",
                lambda jobs: jobs[0]["metric_relabel_configs"][0].update(action="remove"),
            ),
        ),
    ),
)
