"""The scrape configuration of a platform on Slurm, whose controller collects metrics with Prometheus in agent mode.

The controller fetches the document again and again, and lists its nodes for it in a file: the lists of
lifecycle_scripts/collector/follow.py, whose labels are the ones that this module reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from trainway.monitoring.scraping import keep, relabel, used_series
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics_ports import (
    DCGM_METRICS_PORT,
    EFA_METRICS_PORT,
    NODE_METRICS_PORT,
    RUN_METRICS_PORT,
    SLURM_METRICS_PORT,
)
from trainway.spec.observability.samples import SCRAPE_SECONDS
from trainway.spec.platform import Platform

# Where a controller lists its nodes: lifecycle_scripts/steps/52-collector.sh.
TARGETS: Final = "/opt/trainway/collector/targets.json"
# A placeholder for an environment variable of the scripts' stage.
METRICS_ENDPOINT: Final = "${TRAINWAY_METRICS_ENDPOINT}"

# A scrape beyond a limit fails as a whole, so that no program of a job fills the workspace.
LIMITS = {"sample_limit": 20_000, "label_limit": 30, "label_value_length_limit": 500}


def slurm_scrape_document(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the Prometheus configuration, with a scrape job for each exporter of the nodes and one for the runs.

    Of the series about scrapes, only those of exporters that answer or do not are written. An idle node has no run to
    scrape, and each series is paid for.
    """
    types = {group.name: types_of(group, catalogue) for group in platform.node_groups}
    with_efa = [name for name, found in types.items() if any(each.efa_interfaces for each in found)]
    with_dcgm = [
        name
        for name, found in types.items()
        if any(each.accelerator and each.accelerator.vendor == "nvidia" for each in found)
    ]
    jobs = [
        _job("node", NODE_METRICS_PORT, [], "node"),
        _job("slurm", SLURM_METRICS_PORT, [keep("__meta_role", "controller")], "slurm", "exporter"),
        *([_job("efa", EFA_METRICS_PORT, [_of_groups(with_efa)], "efa", "exporter")] if with_efa else []),
        *([_job("dcgm", DCGM_METRICS_PORT, [_of_groups(with_dcgm)], "dcgm", "exporter")] if with_dcgm else []),
        # Whoever has a job on a node can answer at this port.
        _job("runs", RUN_METRICS_PORT, [keep("__meta_role", "compute")], "run"),
    ]
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": "10s"},
        "scrape_configs": jobs,
        "remote_write": [
            {
                "url": f"{METRICS_ENDPOINT}/api/v1/remote_write",
                "sigv4": {"region": platform.region},
                "write_relabel_configs": [
                    _drop("scrape_.*"),
                    {"source_labels": ["__name__", "job"], "regex": "up;runs", "action": "drop"},
                ],
            }
        ],
    }


def _job(name: str, port: int, kept: list[dict[str, Any]], *emitters: str) -> dict[str, Any]:
    """Return a Prometheus scrape job for one port of the matching nodes, which keeps the used metrics of the emitters.

    `instance` is the node name in Slurm.
    """
    return {
        "job_name": name,
        **LIMITS,
        "file_sd_configs": [{"files": [TARGETS]}],
        "relabel_configs": [
            *kept,
            relabel("__address__", "__address__", f"$1:{port}"),
            relabel("instance", "__meta_name", "$1"),
        ],
        "metric_relabel_configs": used_series(*emitters),
    }


def _of_groups(groups: Iterable[str]) -> dict[str, Any]:
    """Return a rule that keeps the nodes of some groups. The partition of a group has its name."""
    return keep("__meta_partitions", f".*,({'|'.join(groups)}),.*")


def _drop(names: str) -> dict[str, Any]:
    return {"source_labels": ["__name__"], "regex": names, "action": "drop"}
