"""Measure rates on hosts that are network namespaces, each with its own link to a switch.

The program runs in one process for each host. They are forked from one that has imported torch, because an import costs
more than what the test measures. `python -m tests.verify.hosts MBIT…` has a host for each number, the Mbit/s of its
link, in a network namespace that the caller has made. All namespaces end with the processes.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import socket
import subprocess
import sys
import traceback
from pathlib import Path

CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000  # <linux/sched.h>
PROGRAM = Path(__file__).parents[2] / "trainway" / "verify" / "rates_program.py"
BURST, QUEUE = "16kb", "4mb"
"""Bytes that a link sends at once, far below the size of a collective, and bytes that it queues."""


def main(rates: list[str]) -> int:
    """Run a host for each rate, and return 0 if the program succeeded on all of them."""
    importlib.import_module("torch.distributed")
    ip("link add br0 type bridge")
    ip("link set br0 up")
    ready, go = os.pipe(), os.pipe()
    hosts = [fork(number, len(rates), ready[1], go[0]) for number in range(len(rates))]
    for _ in hosts:
        os.read(ready[0], 1)
    for number, (pid, rate) in enumerate(zip(hosts, rates, strict=True)):
        ip(f"link add port{number} type veth peer name eth0 netns {pid}")
        ip(f"link set port{number} master br0 up")
        shape(f"port{number}", rate)
        inside = ["nsenter", f"--target={pid}", "--net"]
        ip(f"address add {address(number)}/24 dev eth0", *inside)
        ip("link set lo up", *inside)
        ip("link set eth0 up", *inside)
        shape("eth0", rate, *inside)
    os.write(go[1], b"." * len(hosts))
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in hosts)


def fork(number: int, hosts: int, ready: int, go: int) -> int:
    """Fork a host, which enters its own network namespace, waits for its link, and runs the program."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET | CLONE_NEWUTS):
            raise OSError(ctypes.get_errno(), "unshare")
        socket.sethostname(f"n{number}")
        os.write(ready, b".")
        os.read(go, 1)
        os.environ |= {
            "RANK": str(number),
            "WORLD_SIZE": str(hosts),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": address(0),
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        exec(compile(PROGRAM.read_text(), PROGRAM, "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def address(number: int) -> str:
    return f"10.79.0.{10 + number}"


def shape(device: str, mbit: str, *inside: str) -> None:
    """Limit what a device sends, by a token bucket."""
    words = f"tc qdisc add dev {device} root tbf rate {mbit}mbit burst {BURST} limit {QUEUE}"
    subprocess.run([*inside, *words.split()], check=True)


def ip(words: str, *inside: str) -> None:
    subprocess.run([*inside, "ip", *words.split()], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
