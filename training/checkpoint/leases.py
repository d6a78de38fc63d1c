"""The leases of a run: of its checkpoints, and of its own directory."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch.distributed as dist

from training.checkpoint.agreement import agree
from training.errors import LocationInUse, StorageFailed, UserError
from training.hosts.lease import Lease, this_agent, this_process


@contextmanager
def leased(
    locations: Iterable[str], on_loss: Callable[[], None], group: dist.ProcessGroup
) -> Iterator[Callable[[], None]]:
    """Hold the leases of some locations. Rank 0 has them for all ranks of the group, and every rank calls this.

    Yields a function that every rank calls before it writes. It raises LocationInUse on every rank if a lease is lost.
    `on_loss` is called in another thread of rank 0 when a lease is lost.

    Raises:
        LocationInUse: another run has one of the leases. Raised on every rank.
        StorageFailed: a lease cannot be read or written. Raised on every rank.
    """
    leases: list[Lease] = []
    agents = _agents(group)

    def acquire(location: str) -> None:
        run = os.environ.get("TRAINWAY_RUN", str(Path.cwd()))
        leases.append(Lease(location, this_process(run, agents), on_loss))
        held.callback(leases[-1].release)

    def check() -> None:
        _agree([lease.loss for lease in leases], group)

    with ExitStack() as held:
        mine = dict.fromkeys(locations) if dist.get_rank(group) == 0 else {}
        # At the same time: each may have to watch the heartbeat of a dead run.
        with ThreadPoolExecutor() as threads:
            acquired = [threads.submit(acquire, location) for location in mine]
        _agree([each.result for each in acquired], group)
        yield check


def _agents(group: dist.ProcessGroup) -> tuple[str, ...]:
    """Return the names of the torchrun agents of all ranks of the group, sorted. Every rank of the group calls this."""
    found = [""] * dist.get_world_size(group)
    dist.all_gather_object(found, this_agent(), group=group)
    return tuple(sorted(set(found) - {""}))


def _agree(attempts: Iterable[Callable[[], str | None]], group: dist.ProcessGroup) -> None:
    """Raise on every rank what an attempt of a rank raises, or LocationInUse with what it returns."""
    in_use, failure = None, None
    try:
        for attempt in attempts:
            in_use = in_use or attempt()
    except LocationInUse as error:
        in_use = str(error)
    except (UserError, OSError) as error:
        failure = str(error)
    agree(in_use, group, LocationInUse)
    agree(failure, group, StorageFailed)
