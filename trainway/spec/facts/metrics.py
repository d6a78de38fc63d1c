"""The metrics that a platform can have, by what emits them, loaded from metrics.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source

Store = Literal["cloudwatch", "logs", "prometheus"]
# The orchestrators by their names in the platform file: facts know no section of it.
OrchestratorName = Literal["eks", "hyperpod-eks", "hyperpod-slurm"]
# What each series of a metric is of.
Per = Literal["platform", "node", "vcpu", "gpu", "efa"]
# A Prometheus adds these labels to each series that it scrapes.
# https://prometheus.io/docs/concepts/jobs_instances/ (read 2026-12-01)
_OF_SCRAPES = ("instance", "job")


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Metric(_Facts):
    """A metric that panels or alarms use.

    CloudWatch has `dimensions`, and `statistics` that mean something. Prometheus has a `kind`, `labels` beside those of
    the emitter, and about `times` series of each thing that it is `per`. In logs, a metric is the number of lines that
    contain its name. `under` narrows the orchestrators of the emitter.
    """

    unit: str
    kind: Literal["gauge", "counter"] | None = None
    labels: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    under: tuple[OrchestratorName, ...] | None = None
    per: Per = "node"
    times: PositiveInt = 1


class Emitter(_Facts):
    """A program or service that emits metrics.

    `labels` are those of each series, and `labels_of_pods` those that it also has on Kubernetes. `unused` has patterns
    of the names that no panel and no alarm uses, with the reason.
    """

    name: str
    what: str
    store: Store
    namespace: str | None = None
    under: tuple[OrchestratorName, ...]
    labels: tuple[str, ...] = ()
    labels_of_pods: tuple[str, ...] = ()
    metrics: Mapping[str, Metric]
    unused: Mapping[str, str]
    sources: tuple[Source, ...] = Field(min_length=1)

    def has(self, metric: str, orchestrator: str) -> bool:
        """Return whether the emitter emits the metric, which something uses, under an orchestrator."""
        found = self.metrics.get(metric)
        return found is not None and orchestrator in (found.under or self.under)

    def labels_of(self, metric: str, orchestrator: str) -> frozenset[str]:
        """Return the labels of a Prometheus metric under an orchestrator, with those that a scrape adds."""
        of_pods = () if orchestrator == "hyperpod-slurm" else self.labels_of_pods
        return frozenset({*_OF_SCRAPES, *self.labels, *of_pods, *self.metrics[metric].labels})

    def leaves_unused(self, metric: str) -> bool:
        """Return whether the emitter emits the metric, and nothing uses it."""
        return metric not in self.metrics and any(fnmatchcase(metric, each) for each in self.unused)


@cache
def load_emitters() -> Mapping[str, Emitter]:
    """Return the emitters of metrics.yaml by their names, read once."""
    stated = read_facts(FACTS / "metrics.yaml")["emitters"]
    return {each.name: each for each in map(Emitter.model_validate, stated)}


@cache
def emitters_of_metric(metric: str) -> tuple[Emitter, ...]:
    """Return the emitters that emit a metric which something uses."""
    return tuple(each for each in load_emitters().values() if metric in each.metrics)
