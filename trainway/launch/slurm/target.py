"""The target `slurm`: a batch script on the platform's own cluster."""

from __future__ import annotations

from trainway.launch.slurm.cluster_state import cluster_state
from trainway.launch.slurm.evidence import evidence
from trainway.launch.slurm.forward import forward
from trainway.launch.slurm.logs import logs
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.slurm.script import render_script
from trainway.launch.slurm.submit import find, submit
from trainway.launch.slurm.watch import shell, state, stop
from trainway.launch.starting.prepare import prepare_on_platform
from trainway.launch.target.protocol import Target
from trainway.spec.sections.orchestrator import Orchestrator

TARGET = Target(
    name="slurm",
    heading="Under Slurm",
    options=SlurmOptions,
    orchestrators=tuple(each for each in Orchestrator if not each.is_kubernetes),
    prepare=prepare_on_platform,
    render=render_script,
    submit=submit,
    find=find,
    state=state,
    logs=logs,
    stop=stop,
    shell=shell,
    interactive=True,
    forward=forward,
    evidence=evidence,
    cluster_state=cluster_state,
)
