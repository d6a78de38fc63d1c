"""The target `slurm`: a batch script on the platform's own cluster."""

from __future__ import annotations

from trainway.launch.slurm.cluster import named_cluster
from trainway.launch.slurm.cluster_state import cluster_state
from trainway.launch.slurm.evidence import evidence
from trainway.launch.slurm.forward import forward
from trainway.launch.slurm.logs import logs
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.slurm.script import check_job, render_script, shown_script
from trainway.launch.slurm.submit import find, submit
from trainway.launch.slurm.watch import shell, state, stop
from trainway.launch.starting.prepare import requests_on_platform
from trainway.launch.target.protocol import Handle, Target
from trainway.spec.handoff import HandOff
from trainway.spec.sections.orchestrator import Orchestrator


def _on_platform(hand_off: HandOff, team: str | None) -> Handle:
    del team
    return named_cluster(hand_off)


TARGET = Target(
    name="slurm",
    heading="Under Slurm",
    options=SlurmOptions,
    orchestrators=tuple(each for each in Orchestrator if not each.is_kubernetes),
    handle={
        "cluster": r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}",
        "arn": r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:cluster/[a-z0-9]{1,63}",
        "region": r"[a-z]{2,}(-[a-z0-9]+)+",
        # Users of the cluster submit jobs. Root does not.
        "user": r"(?!root$)[A-Za-z_][A-Za-z0-9_.@-]{0,255}",
        "job": r"[0-9]{1,10}",
        "directory": r"(/(?!\.{1,2}/)[A-Za-z0-9_.@+=-]+)*/(?P<run>[a-z0-9-]+)",
    },
    on_platform=_on_platform,
    decided=("cluster", "arn", "region"),
    prepare=requests_on_platform,
    render=render_script,
    check=check_job,
    shown=shown_script,
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
