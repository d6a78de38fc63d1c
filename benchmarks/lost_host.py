"""Start a run on three hosts, of which two train and one is a spare host. Each host is a network namespace.

`TrainingHost.lose` simulates a loss of power: it cuts the link of the host and kills its processes.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import namespaces
from benchmarks.goodput import ranks_of
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT

HOSTS_THAT_TRAIN = 2
ADDRESSES = ("10.79.0.10", "10.79.0.11", "10.79.0.12")


class TrainingHost:
    """A host whose first process is torchrun."""

    def __init__(self, link: namespaces.Host, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._link = link
        # The kernel kills all processes of a process namespace when the first one is killed.
        words = [
            "ip",
            "netns",
            "exec",
            link.name,
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            *command,
        ]
        with log.open("wb") as output:
            self.process = subprocess.Popen(words, env=environment, stdout=output, stderr=output)

    def ranks(self) -> list[int]:
        """Return the process IDs of the child processes of torchrun."""
        return [rank for launcher in ranks_of(self.process.pid) for rank in ranks_of(launcher)]

    def lose(self) -> None:
        """Cut the link of the host, and kill its processes."""
        self._link.cut()
        self.process.send_signal(signal.SIGKILL)


@contextmanager
def training_hosts(
    command: Callable[[list[str]], list[str]], environment: dict[str, str], conf: str, directory: Path
) -> Iterator[list[TrainingHost]]:
    """Start torchrun on three hosts, of which HOSTS_THAT_TRAIN train. Kill all processes when the context ends.

    `command` takes the rendezvous options of torchrun, and returns the complete command. `conf` is the value of
    `--rdzv-conf`.
    """
    with namespaces.network(f"recovery-{os.getpid()}", ADDRESSES) as links, ExitStack() as running:
        hosts = []
        for number, link in enumerate(links):
            meet = [
                f"--nnodes={HOSTS_THAT_TRAIN}:{HOSTS_THAT_TRAIN}",
                "--nproc-per-node=1",
                "--rdzv-backend=c10d",
                f"--rdzv-endpoint={links[0].address}:{RENDEZVOUS_PORT}",
                f"--rdzv-conf={conf},is_host={number == 0}",
                f"--local-addr={link.address}",
            ]
            # ft_launcher names its sockets by process IDs, which are the same on each host.
            (directory / link.name).mkdir()
            variables = environment | {"GLOO_SOCKET_IFNAME": "eth0", "TMPDIR": str(directory / link.name)}
            hosts.append(TrainingHost(link, command(meet), variables, directory / f"log-{number}"))
            running.callback(hosts[-1].process.wait)
            running.callback(hosts[-1].process.kill)
        yield hosts
