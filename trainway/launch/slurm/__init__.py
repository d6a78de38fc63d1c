"""Launch under Slurm: write a batch script, submit it on the cluster, and watch it with Slurm's commands."""

from trainway.launch.slurm.logs import logs
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.slurm.script import render_script
from trainway.launch.slurm.submit import submit
from trainway.launch.slurm.target import TARGET
from trainway.launch.slurm.watch import shell, state, stop

__all__ = ["TARGET", "SlurmOptions", "logs", "render_script", "shell", "state", "stop", "submit"]
