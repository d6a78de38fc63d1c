"""Watch and control a run under Slurm: its state, its end, and a shell on one of its nodes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from trainway.launch.slurm.cluster import WITH_SLURM, on_cluster, slurm_is_here
from trainway.launch.slurm.session import commands, login_for, session
from trainway.launch.target.protocol import Handle, Phase, State
from trainway.spec.errors import usage_error

# The states of jobs: https://slurm.schedmd.com/job_state_codes.html (read 2026-11-21). What is not here failed.
_PHASES = {
    "EXPEDITING": Phase.QUEUED,
    "PENDING": Phase.QUEUED,
    "PREEMPTED": Phase.QUEUED,
    "REQUEUED": Phase.QUEUED,
    "REQUEUE_FED": Phase.QUEUED,
    "REQUEUE_HOLD": Phase.QUEUED,
    "RESV_DEL_HOLD": Phase.QUEUED,
    "SPECIAL_EXIT": Phase.QUEUED,
    "SUSPENDED": Phase.QUEUED,
    "STOPPED": Phase.QUEUED,
    "CONFIGURING": Phase.STARTING,
    "POWER_UP_NODE": Phase.STARTING,
    "RUNNING": Phase.RUNNING,
    "COMPLETING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.RUNNING,
    "UPDATE_DB": Phase.RUNNING,
    "COMPLETED": Phase.SUCCEEDED,
    "CANCELLED": Phase.STOPPED,
}
# A step of one node says so in the environment, and srun in its shell could not start processes on the other nodes.
_SHELL = (
    "for name in ${!SLURM_*}; do [[ $name == SLURM_CONF || $name == SLURM_JOB_ID ]] || unset $name; done; "
    "exec bash --login"
)
# A file of the run, which names the job and the start whose batch script hears a signal (script.py).
LISTENS = "listens"
# What the batch script writes down at its end (script.py). Slurm forgets jobs after a while, and may keep no accounts.
_OUTCOMES = {"succeeded": Phase.SUCCEEDED, "stopped": Phase.STOPPED, "failed": Phase.FAILED}


def state(handle: Handle) -> State:
    """Return the state of the run from squeue, from the run's file `outcome`, or from the accounting."""
    job, directory = shlex.quote(handle["job"]), PurePosixPath(handle["directory"])
    # By its name: asked for a job that it forgot, squeue fails as if it could not ask. A busy controller
    # closes some connections ("Unexpected missing socket error"). squeue is therefore called again once.
    line = f"""
ask() {{ squeue --noheader --states=all --name={shlex.quote(directory.name)} --format='%A|%T|%r|%N'; }}
queued=$(ask) || queued=$(sleep 2 && ask) || exit
queued=$(grep ^{job}'|' <<<"$queued")
outcome=$(cat {shlex.quote(str(directory / "outcome"))} 2>/dev/null)
accounted=
if [[ -z $queued ]]; then
  accounted=$(sacct --noheader --parsable2 --allocations --jobs={job} --format=JobID,State,Reason 2>/dev/null)
fi
nodes=${{queued##*|}}
printf '%s\\n' "$queued" "$outcome" "${{accounted##*$'\\n'}}"
if [[ $nodes ]]; then
  scontrol show hostnames "$nodes"
fi
"""
    said = on_cluster(line, handle, what=f"the state of job {job} is not known").splitlines()
    queued, outcome, accounted, *nodes = said
    phase, reason = _phase(queued or accounted)
    if phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.GONE) and outcome:
        return State(_OUTCOMES.get(outcome.split()[0], Phase.FAILED), "" if outcome == "succeeded" else outcome)
    return State(phase, reason, tuple(nodes) if phase in (Phase.STARTING, Phase.RUNNING) else ())


def stop(handle: Handle) -> None:
    """Signal the batch script, so that the ranks save a checkpoint and end. Cancel a run that waits.

    Slurm calls a job running before its script has begun. The signal would end that script, or get lost, so it is sent
    when the script listens, or after half a minute.
    """
    job, directory = shlex.quote(handle["job"]), PurePosixPath(handle["directory"])
    # Not queued again, whatever happens while it saves. One that has ended, or that has another name, is left alone.
    line = f"""
phase() {{ squeue --noheader --states=all --jobs={job} --name={shlex.quote(directory.name)} --format=%T; }}
listens() {{
  restarts=$(scontrol show job {job} | sed -n 's/.*Restarts=\\([0-9]*\\).*/\\1/p')
  [[ $(cat {shlex.quote(str(directory / LISTENS))} 2>/dev/null) == {job}.$restarts ]]
}}
case $(phase) in
  RUNNING)
    scontrol update JobId={job} Requeue=0
    for ((tries = 0; tries < 60; tries++)); do
      listens || [[ $(phase) != RUNNING ]] && break
      sleep 0.5
    done
    scancel --batch --signal=USR1 {job}
    ;;
  PENDING | CONFIGURING | REQUEUE* | SPECIAL_EXIT | SUSPENDED) scancel {job} ;;
esac
"""
    on_cluster(line, handle, what=f"job {job} cannot be stopped")


def shell(handle: Handle, node: int) -> Sequence[str]:
    """Return the command that opens a shell on a node of the run, beside its processes.

    Raises UsageError where it does not run, or not on so many nodes.
    """
    what = f"there is no shell on node {node} of job {handle['job']}"
    name = node_name(handle, node, what)
    command = ("srun", *beside(handle["job"], name), "--pty", "bash", "-c", _SHELL)
    if slurm_is_here():
        return command
    # For a session that is interactive the agent has a shell run the line.
    line = [
        "sudo",
        "--login",
        f"--user={login_for(handle, what=what)}",
        "bash",
        "-c",
        f"{WITH_SLURM} {shlex.join(command)}",
    ]
    return session(handle, "AWS-StartInteractiveCommand", commands(shlex.join(line)), what=what)


def node_name(handle: Handle, node: int, what: str) -> str:
    """Return the name of a node of the run. Raises UsageError where the run has no such node, or does not run."""
    found = state(handle)
    if found.phase is not Phase.RUNNING:
        raise usage_error(what, why=f"it is {found.phase}", fix="wait until it runs")
    if not 0 <= node < len(found.nodes):
        last = len(found.nodes) - 1
        raise usage_error(what, why=f"it runs on {len(found.nodes)} nodes", fix=f"name one from 0 to {last}")
    return found.nodes[node]


def beside(job: str, node: str) -> tuple[str, ...]:
    """Return the options of srun for a process on a node of a job, beside those of the job."""
    return (f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}")


def _phase(row: str) -> tuple[Phase, str]:
    if not row:
        return Phase.GONE, ""
    _, name, reason, *_ = row.split("|")
    return phase_of(name, reason)


def phase_of(name: str, reason: str) -> tuple[Phase, str]:
    """Return the phase of a job by Slurm's name of its state, and why it is in that phase."""
    # sacct says by whom: `CANCELLED by 1000`.
    word = name.split()[0]
    phase = _PHASES.get(word, Phase.FAILED)
    shown = "" if reason in ("None", "") else reason
    return phase, shown or (word if phase is Phase.FAILED else "")
