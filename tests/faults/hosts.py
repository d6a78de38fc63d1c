"""Hosts of a run: a network namespace with a link to a switch, and a process namespace whose first process is torchrun.

To kill the first process kills all processes of the host, as a loss of power does. A host starts torchrun again when it
fails, as Kubernetes starts a container again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from benchmarks import namespaces
from tests.training.conftest import Launch, Run
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT, many_nodes

_networks = itertools.count()


def missing() -> str | None:
    """Return why no hosts can be created here, or None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may make namespaces"
    return None if shutil.which("ip") else "not installed: ip"


class Host:
    """A host with an address, and torchrun on it while the run has not ended."""

    def __init__(self, link: namespaces.Host, start: Callable[[Host], Run]) -> None:
        self.address, self.name = link.address, link.name
        self.cut, self.heal = link.cut, link.heal
        self.output = ""
        self._start = start
        self._lost = False
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def boot(self) -> None:
        """Start torchrun, and start it again when it fails."""
        self._lost = False
        self.heal()
        self.run = self._start(self)
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def lose(self) -> None:
        """Cut the power: the link is gone, and so are all processes."""
        self._lost = True
        self.cut()
        os.kill(self.run.process.pid, signal.SIGKILL)
        self._thread.join(300)

    def wait_for_end(self) -> str:
        """Wait until torchrun has ended, and do not start it again. Return its output."""
        self._lost = True
        self._thread.join(600)
        assert not self._thread.is_alive()
        return self.output

    def finish(self) -> str:
        """Wait until the run succeeds. Return the output of all starts of torchrun."""
        self._thread.join(1800)
        assert not self._thread.is_alive() and self.run.process.poll() == 0, self.output
        return self.output

    def _keep(self) -> None:
        while True:
            output, _ = self.run.process.communicate(timeout=300)
            self.output += output
            if self._lost or self.run.process.returncode == 0:
                return
            time.sleep(1)
            self.run = self._start(self)


@contextlib.contextmanager
def hosts(
    launch: Launch,
    job: dict[str, Any],
    directory: Path,
    nodes: str = "2",
    count: int = 2,
    slow: Collection[int] = (),
    last_call_seconds: int = 2,
    first_has_rank_0: bool = True,
    elastic: bool = False,
    later: int = 0,
) -> Iterator[list[Host]]:
    """Boot `count` hosts with a rank each, which train one job. The first one also has the rendezvous.

    `nodes` is torchrun's `--nnodes`, for example `1:2` for a run that can continue on one host. Hosts beyond its
    maximum are spares: torchrun waits there. On the hosts with the numbers in `slow`, torchrun looks every two seconds
    at its ranks and for new hosts, and on the others ten times a second. Once the minimum number of hosts has joined,
    torchrun waits `last_call_seconds` for more hosts before it starts the ranks. torchrun gives rank 0 to the training
    host with the lowest address. The first host has the lowest address, or the highest if `first_has_rank_0` is False.
    With `elastic`, each host runs the agent of the training job in the place of torchrun. The caller boots the last
    `later` hosts.
    """
    prefix = f"faults-{os.getpid()}-{next(_networks)}"

    def start(host: Host) -> Run:
        endpoint = f"{network[0].address}:{RENDEZVOUS_PORT}"
        options = many_nodes(nodes, 1, endpoint=endpoint, run="faults", max_restarts=3)
        is_host = str(host is network[0]).lower()
        # The ranks are forks of the agent, which has imported everything. A stopped rank is soon killed.
        options |= {"PET_START_METHOD": "fork", "PET_SHUTDOWN_TIMEOUT": "3"} if elastic else {}
        options["PET_RDZV_CONF"] += f",join_timeout=300,last_call_timeout={last_call_seconds},is_host={is_host}"
        return launch(
            job,
            1,
            rendezvous=(),
            network=host.name,
            elastic=elastic,
            **options,
            PET_LOCAL_ADDR=host.address,
            PET_MONITOR_INTERVAL="2" if network.index(host) in slow else "0.1",
            GLOO_SOCKET_IFNAME="eth0",
            TRAINWAY_MEMORY=str(directory / f"memory-{host.name}"),
        )

    addresses = [f"10.79.0.{number}" for number in range(10, 10 + count)]
    if not first_has_rank_0:
        addresses.reverse()
    with namespaces.network(prefix, addresses) as links:
        network = [Host(link, start) for link in links]
        try:
            for host in network[: count - later]:
                host.boot()
            yield network
        finally:
            for host in network:
                host._lost = True
                with contextlib.suppress(AttributeError, ProcessLookupError):
                    if host.run.process.poll() is None:
                        os.kill(host.run.process.pid, signal.SIGKILL)
