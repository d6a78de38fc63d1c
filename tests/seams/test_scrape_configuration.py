"""Validate the scrape configurations of the AWS managed collector and of Slurm's controller."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from delivery.render_manifests import render
from stacks.constructs.delivery.bundle import slurm_documents
from tests.monitoring.test_scraping import written
from tests.prometheus import program
from tests.seams.resolved import deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms, some_and_all_platforms
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.observability.collection import SCRAPING_DOCUMENT

Document = dict[str, Any]
COLLECTED, COLLECTED_BY_AGENT = "collected-metrics", "collected-metrics-of-slurm"


def problems(document: Document, directory: Path) -> Sequence[str]:
    """Return the errors that promtool reports for the configuration."""
    done = subprocess.run(
        [program("promtool"), "check", "config", written(document, directory)], capture_output=True, text=True
    )
    return [] if done.returncode == 0 else [done.stdout + done.stderr]


def configurations(names: Iterable[str]) -> Iterator[Document]:
    """Yield the configuration of each collector in the templates."""
    for platform in deployed(names).values():
        for scraper in platform.of_type("AWS::APS::Scraper").values():
            yield _decoded(scraper)


def _decoded(scraper: Document) -> Document:
    text = base64.b64decode(scraper["ScrapeConfiguration"]["ConfigurationBlob"], validate=True)
    loaded: Document = yaml.safe_load(text)
    return loaded


def of_slurm(name: str) -> Document:
    """Return the document that the controller of a platform fetches, as the delivery writes it."""
    deployed = {"TRAINWAY_METRICS_ENDPOINT": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1"}
    document = slurm_documents(platforms()[name], load_catalogue())[SCRAPING_DOCUMENT]
    loaded: Document = json.loads(render(json.dumps(document), deployed))
    return loaded


def problems_of_agent(document: Document, directory: Path) -> Sequence[str]:
    """Return the errors that promtool reports for the configuration of an agent."""
    file = directory / "prometheus.json"
    file.write_text(json.dumps(document))
    command = [program("promtool"), "check", "config", "--agent", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    return [] if done.returncode == 0 else [done.stdout + done.stderr]


@pytest.mark.parametrize("names", some_and_all_platforms((COLLECTED,)))
def test_promtool_takes_the_configuration_of_every_collector(names: tuple[str, ...], tmp_path: Path) -> None:
    found = list(configurations(names))
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


def planted_in_slurm(error: str, change: Callable[[Document], Any]) -> Planted:
    """Plant an error in the configuration of an agent."""

    def read(broken: bool, directory: Path) -> Sequence[str]:
        document = of_slurm(COLLECTED_BY_AGENT)
        if broken:
            change(document)
        return problems_of_agent(document, directory)

    return Planted(error, sound=partial(read, False), broken=partial(read, True))


SEAMS = (
    Seam(
        artifact="Scrape configuration of Slurm's controller",
        rendered_by="trainway/monitoring/slurm_scraping.py",
        reader="promtool of Prometheus, for an agent. `tests/lifecycle_scripts/test_collector.py` runs Prometheus in "
        "agent mode with it on a controller",
        instead="It is the real reader. Debian's version is older than the one that is delivered.",
        planted=(
            planted_in_slurm(
                "a key of the signature is misspelled",
                lambda document: document["remote_write"][0]["sigv4"].update(regions="us-west-2"),
            ),
            planted_in_slurm(
                "an agent has rules, which it does not evaluate", lambda document: document.update(rule_files=["a.yml"])
            ),
            planted_in_slurm(
                "two jobs have one name",
                lambda document: document["scrape_configs"].append(copy.deepcopy(document["scrape_configs"][0])),
            ),
        ),
    ),
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
