"""The text of `trainway top`: the sites, with as many jobs and nodes as fit on the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainway.launch.runs.status import duration
from trainway.launch.target.cluster_state import ClusterNode
from trainway.launch.top.gather import Site, TopJob

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "unknown"
_ORDER = ("running", "starting", "queued")


def headline(site: Site) -> str:
    """Return the sentence above the tables of a site: its nodes by state, and its GPUs."""
    where = f"{site.name} in {site.region}" if site.region else f"{site.name}, this machine"
    if not site.nodes:
        return where
    states = Counter(each.state for each in site.nodes) if site.region else Counter()
    nodes = ", ".join(f"{count} {state}" for state, count in states.most_common())
    used = [each.used for each in site.nodes if each.used is not None]
    parts = (
        *([f"{len(site.nodes)} nodes ({nodes})"] if nodes else []),
        f"GPUs: {_total(site.nodes, 'gpus')}",
        *([f"allocated: {_total(site.nodes, 'allocated')}"] if site.region else []),
        *([f"idle: {idle}"] if (idle := sum(each.idle or 0 for each in site.nodes)) else []),
        f"in use: {f'{sum(used) / len(used):.0%} on {len(used)} nodes' if used else UNKNOWN}",
    )
    return f"{where}: {', '.join(parts)}"


def jobs_table(jobs: Sequence[TopJob], most: int | None = None) -> Table:
    """Return a table of at most `most` jobs, running jobs first."""
    shown = sorted(jobs, key=lambda each: (_ORDER.index(each.phase) if each.phase in _ORDER else 3, each.age or 0))
    heads = ("job", "owner", "team", "target", "state", "step", "tokens/s", "gpus", "in use", "age", "nodes", "reason")
    return _table(heads, [_job_row(each) for each in shown[:most]])


def nodes_table(site: Site, most: int | None = None) -> Table:
    """Return a table of at most `most` nodes of a site, busy nodes first. Each row has the jobs on the node."""
    shown = sorted(site.nodes, key=lambda each: (-(each.allocated or 0), each.name))
    heads = ("node", "group", "state", "gpus", "allocated", "in use", "jobs", "reason")
    return _table(heads, [_node_row(each, site) for each in shown[:most]])


def _job_row(job: TopJob) -> tuple[str, ...]:
    nodes = ", ".join(job.nodes) if len(job.nodes) <= 2 else f"{len(job.nodes)} nodes"
    missing = UNKNOWN if job.phase == "running" else ""
    speed = missing if job.tokens_per_second is None else f"{job.tokens_per_second:,.0f}"
    who = (job.owner or "", job.team or "", job.target, job.phase)
    return (
        job.name,
        *who,
        job.step or missing,
        speed,
        _word(job.gpus),
        _use(job),
        duration(job.age),
        nodes,
        job.reason,
    )


def _node_row(node: ClusterNode, site: Site) -> tuple[str, ...]:
    jobs = ", ".join(job.name for job in site.jobs if node.name in job.nodes)
    # No scheduler allocates the GPUs of this machine.
    allocated = _word(node.allocated) if site.region else ""
    used = _use(node) or UNKNOWN
    return (node.name, node.group or "", node.state, _word(node.gpus), allocated, used, jobs, node.reason)


def _use(of: TopJob | ClusterNode) -> str:
    """Return the use of the GPUs, with the number of idle ones if there are any."""
    if of.used is None:
        return ""
    return f"{of.used:.0%}, {of.idle} idle" if of.idle else f"{of.used:.0%}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without the columns that are empty in all rows. The name in the first column is never cut."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    filled = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    for index in filled:
        longest = max(len(row[index]) for row in rows)
        if index == 0:
            table.add_column(heads[index], no_wrap=True, min_width=longest)
        else:
            table.add_column(heads[index], overflow="fold", min_width=min(longest, len(UNKNOWN)))
    for row in rows:
        # A reason is text, though it may have brackets.
        table.add_row(*(Text(row[index]) for index in filled))
    return table


def left_out(count: int, most: int | None, what: str) -> Iterator[str]:
    """Yield a sentence about the rows that do not fit on the screen, if there are any."""
    if most is not None and count > most:
        yield f"… and {count - most} more {what}; `trainway top --once` shows them all"


def _total(nodes: Sequence[ClusterNode], what: str) -> str:
    counts: list[int | None] = [getattr(each, what) for each in nodes]
    known = [each for each in counts if each is not None]
    if not known:
        return UNKNOWN
    missing = len(counts) - len(known)
    return f"{sum(known)}" + (f" and those of {missing} nodes unknown" if missing else "")


def _word(count: int | None) -> str:
    return UNKNOWN if count is None else str(count)
