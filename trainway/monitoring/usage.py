"""The panels of the GPUs that teams and jobs hold, and of those that they use, in GPUs and in US dollars.

On Kubernetes, DCGM's exporter names the pod that a GPU is allocated to. On Slurm, the exporter of the controller has
the accelerators of each job on each node. The use of a GPU is its utilization, which is 100 % while a kernel runs.
Prices are those of the price list, or else what bounds them, at the time at which the dashboard is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainway.manifests.namespace import namespace_of
from trainway.monitoring.gpu_alarms import GPU, IDLE_MINUTES, IDLE_PERCENT
from trainway.monitoring.panel import Panel, PanelRow
from trainway.price.gpu import GpuPrice, gpu_prices, mean_usd
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.slurm.slurm_accounts import BORROWED

HELD = "slurm_job_gpus"
ALLOCATED = f'{GPU}{{pod!=""}}'
IDLE_FOR, WINDOW = f"{IDLE_MINUTES}m", "24h"
# A subquery looks at the window every five minutes.
STEP, STEPS_PER_HOUR = "5m", 12
# A pod's name is that of its run, the name and number of a part of the run, and as a rule five random characters. The
# parts are those of the objects that trainway.launch.kubernetes renders.
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode (read 2026-12-01)
POD_OF_RUN = (
    "(.+?)(?:(?:-node-0|-worker|-master|-pods|-needed|-lent)?-[0-9]+|-[a-z0-9]{5}-(?:head|nodes-worker))"
    "(?:-[a-z0-9]{5})?"
)
_MEANING = {
    "allocated": "GPUs of jobs that run, whether they use them or not.",
    "used": "Allocated GPUs, times their utilization. A GPU that waits for others in a collective is utilized.",
    "idle": f"Allocated GPUs whose utilization stayed below {IDLE_PERCENT} % for {IDLE_MINUTES} minutes.",
    "since": f"The time of the last kernel within {WINDOW}, or of the job's first sample.",
    "above": f"GPUs that a team has borrowed, times hours, in the last {WINDOW}.",
}


@dataclass(frozen=True)
class GpuHoldings:
    """Expressions of PromQL for the GPUs of teams and jobs. `team` and `job` are the labels that name one.

    `allocated` and `used` are GPUs, and with `usd` in their names US dollars per hour, or None without a known price.
    `idle` are GPUs, and `since` is the time from which on they are. `above` are GPUs beyond the guarantee of a team, or
    None where teams have none.
    """

    team: tuple[str, ...]
    job: tuple[str, ...]
    allocated: str
    used: str
    allocated_usd: str | None
    used_usd: str | None
    idle: str
    since: str
    above: str | None


def usage_panels(platform: Platform, catalogue: Catalogue) -> Iterator[Panel]:
    """Yield the panels of what teams and jobs hold and use. No platform without accelerators has any."""
    prices = gpu_prices(platform, catalogue)
    if not prices:
        return
    of_slurm = platform.orchestrator is Orchestrator.HYPERPOD_SLURM
    held = _of_slurm(platform, prices) if of_slurm else _of_pods(platform, catalogue, prices)
    dollars = f"{'; '.join(each.sentence for each in prices)}."
    yield from _of_jobs(held, dollars)
    yield from _by(held, "team", dollars)
    if held.above:
        hours = f"sum_over_time(({_sum(held.team, held.above)})[{WINDOW}:{STEP}]) / {STEPS_PER_HOUR}"
        yield Panel(
            "Teams", "GPU-hours above the guarantee, by team", hours, "short", _legend(held.team), _MEANING["above"]
        )


def _of_jobs(held: GpuHoldings, dollars: str) -> Iterator[Panel]:
    yield from _by(held, "job", dollars)
    yield Panel("Jobs", "GPUs idle, by job", _sum(held.job, held.idle), "short", _legend(held.job), _MEANING["idle"])
    labels = (*held.job, "node")
    yield Panel(
        "Jobs",
        "Idle GPUs: who holds them, and since when",
        f"1000 * min by ({', '.join(labels)}) ({held.since})",
        "dateTimeAsIso",
        _legend(labels),
        f"{_MEANING['idle']} {_MEANING['since']}",
        view="table",
    )


def _by(held: GpuHoldings, by: str, dollars: str) -> Iterator[Panel]:
    """Yield what is allocated and used by team or by job."""
    labels = held.team if by == "team" else held.job
    every = (("allocated", held.allocated, held.allocated_usd), ("used", held.used, held.used_usd))
    row: PanelRow = "Teams" if by == "team" else "Jobs"
    legend = _legend(labels)
    for what, gpus, _ in every:
        yield Panel(row, f"GPUs {what}, by {by}", _sum(labels, gpus), "short", legend, _MEANING[what])
    for what, _, usd in every:
        if usd:
            title, about = f"US dollars an hour {what}, by {by}", f"{_MEANING[what]} {dollars}"
            yield Panel(row, title, _sum(labels, usd), "currencyUSD", legend, about)


def _sum(by: tuple[str, ...], series: str) -> str:
    return f"sum by ({', '.join(by)}) ({series})"


def _legend(labels: tuple[str, ...]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _replaced(series: str, label: str, source: str, pattern: str = "(.*)") -> str:
    return f'label_replace({series}, "{label}", "$1", "{source}", "{pattern}")'


def _times(series: str) -> str:
    return f"timestamp({series})[{WINDOW}:{STEP}]"


def _of_pods(platform: Platform, catalogue: Catalogue, prices: tuple[GpuPrice, ...]) -> GpuHoldings:
    """Return the GPUs of the pods that DCGM's exporter names. The label `namespace` becomes `team`."""
    governed = "ns-" if platform.task_governance else ""
    of_team = f"(?:hyperpod-{governed})?(.*)" if platform.orchestrator.is_hyperpod else "(.*)"

    def named(series: str) -> str:
        by_team = _replaced(series, "team", "namespace", of_team)
        return _replaced(_replaced(by_team, "job_name", "pod"), "job_name", "pod", POD_OF_RUN)

    def in_usd(form: str) -> str | None:
        each = [form.format(ALLOCATED.replace("}", f"{models}}}"), usd) for models, usd in _by_model(prices).items()]
        return named(" or ".join(each)) if each else None

    # Whoever got the GPU less than the idle time ago had no time to use it.
    idle = f"max_over_time({ALLOCATED}[{IDLE_FOR}]) < {IDLE_PERCENT} and {ALLOCATED} and {ALLOCATED} offset {IDLE_FOR}"
    since = f"max_over_time({_times(f'{ALLOCATED} >= {IDLE_PERCENT}')}) or min_over_time({_times(ALLOCATED)})"
    above = " or ".join(
        f'count by (namespace) ({GPU}{{pod!="", namespace="{namespace}"}}) - {gpus} > 0'
        for namespace, gpus in _guaranteed_gpus(platform, catalogue).items()
    )
    return GpuHoldings(
        team=("team",),
        job=("team", "job_name"),
        allocated=named(f"0 * {ALLOCATED} + 1"),
        used=named(f"{ALLOCATED} / 100"),
        allocated_usd=in_usd("0 * {} + {:.6g}"),
        used_usd=in_usd("{} / 100 * {:.6g}"),
        idle=named(f"0 * ({idle}) + 1"),
        since=_replaced(named(f"({since}) and ({idle})"), "node", "Hostname"),
        above=_replaced(above, "team", "namespace", of_team) if above else None,
    )


def _by_model(prices: tuple[GpuPrice, ...]) -> Mapping[str, float]:
    """Return the price of a GPU by the further matcher that selects it: none if all prices are one.

    DCGM's name of a model has the last word of its name in the catalogue, such as H100 in `NVIDIA H100 80GB HBM3`.
    Groups whose GPUs are of one model, and are bought in different ways, have the mean of their prices.
    """
    known = [each for each in prices if each.usd is not None and each.accelerator.vendor == "nvidia"]
    models: dict[str, list[GpuPrice]] = {}
    for each in known:
        models.setdefault(each.accelerator.name.split()[-1], []).append(each)
    usd = {model: price for model, of_model in models.items() if (price := mean_usd(of_model))}
    if len(set(usd.values())) == 1 and len(known) == len(prices):
        return {"": next(iter(usd.values()))}
    return {f', modelName=~".*\\\\b{model}\\\\b.*"': price for model, price in usd.items()}


def _guaranteed_gpus(platform: Platform, catalogue: Catalogue) -> Mapping[str, int]:
    """Return the GPUs of each team's guarantee, by the namespace of the team."""
    return {
        namespace_of(platform, team): sum(
            count * accelerator.count
            for name, count in team.guarantee.items()
            if (accelerator := catalogue[name].accelerator) and accelerator.vendor == "nvidia"
        )
        for team in platform.teams
    }


def _of_slurm(platform: Platform, prices: tuple[GpuPrice, ...]) -> GpuHoldings:
    """Return the GPUs of the jobs that the exporter of the controller lists.

    Jobs that share a node have the mean use of its GPUs.
    """

    def of_node(series: str) -> str:
        return _replaced(series, "node", "Hostname")

    used = f"on (node) group_left () avg by (node) ({of_node(GPU)}) / 100"
    usd = _by_node(prices)
    # Whoever got the GPUs less than the idle time ago had no time to use them.
    idle_nodes = of_node(f"max by (Hostname) (max_over_time({GPU}[{IDLE_FOR}])) < {IDLE_PERCENT}")
    idle = f"{HELD} and {HELD} offset {IDLE_FOR} and on (node) {idle_nodes}"
    busy = of_node(f"max by (Hostname) (max_over_time({_times(f'{GPU} >= {IDLE_PERCENT}')}))")
    began = f"min_over_time({_times(HELD)})"
    since = f"clamp_min({busy} - on (node) group_right () {began}, 0) + {began} or {began}"
    return GpuHoldings(
        team=("account",),
        job=("account", "user", "job_name"),
        allocated=HELD,
        used=f"{HELD} * {used}",
        allocated_usd=f"{HELD} * {usd}" if usd else None,
        used_usd=f"{HELD} * {usd} * {used}" if usd else None,
        idle=idle,
        since=f"({since}) and ({idle})",
        above=f'{HELD}{{qos="{BORROWED}"}}' if platform.teams else None,
    )


def _by_node(prices: tuple[GpuPrice, ...]) -> str | None:
    """Return the factor that is the price of a node's accelerators: a number if all have one price."""
    known = {each.group: each.usd for each in prices if each.usd is not None}
    if not known:
        return None
    if len(set(known.values())) == 1 and len(known) == len(prices):
        return f"{next(iter(known.values())):.6g}"
    each = (f'max by (node) (slurm_node_status{{partition="{group}"}}) * {usd:.6g}' for group, usd in known.items())
    return f"on (node) group_left () ({' or '.join(each)})"
