"""Ports and loopback addresses that belong to one process of the tests until it ends.

A program that is told its port takes it later than the test has chosen it. The kernel gives no other program these
ports: they are below those that it gives to connections and to servers at port 0. No other test gets them: the process
that has chosen one holds the UDP port of the same number.
"""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path

LOWEST, HIGHEST = 10_000, 32_767
# The kernel releases what these hold when the process ends.
_held: list[socket.socket] = []
# The UDP port at which a process holds a network. Nothing listens there, and every user may bind it.
_HOLDS_NETWORK = 9_999


def free_port() -> int:
    """Return a port on which nothing listens, and which nothing else gets while this process runs."""
    ports = range(LOWEST, min(HIGHEST + 1, _first_that_the_kernel_gives()))
    chance = random.SystemRandom()
    while True:
        port = chance.choice(ports)
        if _hold("", port) and not _is_taken(port):
            return port


def free_ports(count: int) -> list[int]:
    """Return so many ports, as `free_port` does."""
    return [free_port() for _ in range(count)]


def own_loopback_network() -> str:
    """Return the first three numbers of loopback addresses that no other test gets, for example `127.3.250`.

    Servers that must listen at fixed ports can have an address each.
    """
    chance = random.SystemRandom()
    while not _hold(f"{(network := f'127.{chance.randrange(1, 255)}.{chance.randrange(1, 255)}')}.1", _HOLDS_NETWORK):
        pass
    return network


def _hold(address: str, port: int) -> bool:
    """Return whether no other process of the tests holds a UDP port. This process holds it from now on.

    Raises OSError if this user or this system cannot bind the port at all.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        holder.bind((address, port))
    except OSError as error:
        holder.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    _held.append(holder)
    return True


def _is_taken(port: int) -> bool:
    """Return whether a server listens on a TCP port of this machine."""
    with socket.socket() as listens:
        try:
            listens.bind(("", port))
        except OSError:
            return True
    return False


def _first_that_the_kernel_gives() -> int:
    """Return the lowest port that Linux gives to a connection or to a server at port 0."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(given.read_text().split()[0]) if given.exists() else HIGHEST + 1
    # A machine on which Linux gives nearly all ports has only the test for other tests.
    return lowest if lowest > LOWEST + 1000 else HIGHEST + 1
