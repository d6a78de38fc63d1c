"""The leases of a run: of its checkpoints, and of its own directory."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch.distributed as dist

from training.checkpoint.agreement import agree_on_error
from training.errors import LocationInUse, StorageDenied, StorageFailed, UserError
from training.hosts.lease import Lease, this_agent, this_process
from training.hosts.location_files import is_s3
from training.hosts.run_record import METRICS_FILE


@contextmanager
def leased(
    locations: Iterable[str], on_loss: Callable[[], None], group: dist.ProcessGroup
) -> Iterator[Callable[[], None]]:
    """Hold the leases of some locations. Rank 0 has them for all ranks of the group, and every rank calls this.

    Yields a function that every rank calls before it writes. It raises LocationInUse on every rank if a lease is lost.
    `on_loss` is called in another thread of rank 0 when a lease is lost.

    Raises:
        LocationInUse: another run has one of the leases. Raised on every rank.
        StorageFailed: a lease cannot be read or written, or the record of the run cannot be continued. Raised on every
            rank.
    """
    leases: list[Lease] = []
    agents = _agents(group)

    def acquire(location: str) -> None:
        run = os.environ.get("TRAINWAY_RUN", str(Path.cwd()))
        leases.append(Lease(location, this_process(run, agents), on_loss))
        held.callback(leases[-1].release)
        _check_record(location)

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


def _check_record(location: str) -> None:
    """Check that the record of a run can be continued, if the location is a directory that has one.

    Raises:
        StorageDenied: the file belongs to another user, for example, who launched the run before.
    """
    file = Path(location) / METRICS_FILE
    if not is_s3(location) and file.exists() and not os.access(file, os.W_OK):
        raise StorageDenied(
            f"{file}: the record of the run cannot be written. Let the user of this job (ID {os.geteuid()}) write this "
            "file, or give the run another name"
        )


def _agree(attempts: Iterable[Callable[[], str | None]], group: dist.ProcessGroup) -> None:
    """Raise on every rank what an attempt of a rank raises, or LocationInUse with what it returns."""
    error: UserError | None = None
    try:
        for attempt in attempts:
            if in_use := attempt():
                raise LocationInUse(in_use)
    except UserError as raised:
        error = raised
    except OSError as raised:
        error = StorageFailed(str(raised))
    agree_on_error(error, group)
