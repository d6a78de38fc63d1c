"""Launch on this machine: any number of processes, for as long as the launcher runs."""

from __future__ import annotations

from trainway.launch.local.options import LocalOptions
from trainway.launch.local.run import LocalLaunch, job_failed, render_local, run_local
from trainway.launch.local.target import TARGET

__all__ = ["TARGET", "LocalLaunch", "LocalOptions", "job_failed", "render_local", "run_local"]
