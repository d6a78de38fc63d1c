"""Debian's Prometheus, promtool, Alertmanager, and node_exporter, which `scripts/install_prometheus` installs."""

from __future__ import annotations

import os
import shutil
import socket

import pytest


def program(name: str) -> str:
    """Return the path of a program of Prometheus.

    Where the program is not installed, skip the test, or raise FileNotFoundError in continuous integration.
    """
    if found := shutil.which(name):
        return found
    reason = f"{name} is absent; scripts/install_prometheus installs it"
    if "CI" in os.environ:
        raise FileNotFoundError(reason)
    pytest.skip(reason, allow_module_level=True)


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
