"""Create network namespaces that act as hosts. Each host has an address, and a link that a test can cut."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence


class Host:
    """A network namespace with the interface `eth0`, whose link leads to the switch of its network."""

    def __init__(self, name: str, address: str, switch: str, port: str) -> None:
        self.name, self.address = name, address
        self._switch, self._port = switch, port

    def cut(self) -> None:
        """Cut the link. Packets are lost, and no connection is reset."""
        ip(f"-n {self._switch} link set {self._port} down")

    def heal(self) -> None:
        """Connect the link again."""
        ip(f"-n {self._switch} link set {self._port} up")


@contextlib.contextmanager
def network(prefix: str, addresses: Sequence[str]) -> Iterator[list[Host]]:
    """Create a host for each IPv4 address, and delete all hosts when the context ends. This requires root.

    All addresses belong to one /24 network.

    The names of all namespaces begin with `prefix`.
    """
    switch = f"{prefix}-switch"
    with contextlib.ExitStack() as made:

        def add(name: str) -> None:
            ip(f"netns add {name}")
            made.callback(ip, f"netns delete {name}")

        add(switch)
        ip(f"-n {switch} link add br0 type bridge")
        ip(f"-n {switch} link set br0 up")
        hosts = [
            Host(f"{prefix}-{number}", address, switch, f"port{number}") for number, address in enumerate(addresses)
        ]
        for number, host in enumerate(hosts):
            add(host.name)
            ip(f"-n {switch} link add port{number} type veth peer name eth0 netns {host.name}")
            ip(f"-n {switch} link set port{number} master br0 up")
            ip(f"-n {host.name} address add {host.address}/24 dev eth0")
            ip(f"-n {host.name} link set lo up")
            ip(f"-n {host.name} link set eth0 up")
        yield hosts


def ip(words: str) -> None:
    """Run a command of iproute2."""
    subprocess.run(["ip", *words.split()], check=True)
