"""Render what a Slurm job does when it loses a node: start again, or continue on the remaining nodes.

https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html (read 2026-11-27)
"""

from __future__ import annotations

from functools import partial

from trainway.launch.program.lost_nodes import check_lost_nodes, check_program, waiting_for_success
from trainway.launch.program.request import Request
from trainway.launch.slurm.options import SlurmOptions
from trainway.spec.errors import usage_error

SECONDS_OF_SUCCESS = 10

# Parts of the batch script (script.py) for a job that Slurm ends and requeues when it loses a node.
#
# HyperPod's nodes have the directory /opt/sagemaker_cluster, and HyperPod's plug-in for Slurm has the option
# --auto-resume: HyperPod checks the nodes of a step that failed, and starts the step again after it has replaced a
# faulty node. With GPUs, HyperPod requeues the whole job instead.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-auto-resume.html (read 2026-11-21)
#
# --kill-on-bad-exit ends the other nodes, which would otherwise wait for a node that failed.
ENDS = {
    "resume": "if [[ -d /opt/sagemaker_cluster ]]; then\n  resume=(--auto-resume=1)\nfi\n",
    "when_lost": "--kill-on-bad-exit=1",
    "start": 'exec "$@"',
    "look": "",
}
# The same parts for a job with spare nodes or a minimum number of nodes, which continues on its remaining nodes.
#
# Slurm removes a node that is down from the job. If fewer nodes than the minimum remain, the others wait ten minutes
# for more nodes and then fails. The script therefore requeues the job earlier. The step has no --auto-resume, because
# HyperPod would end the step until it has replaced the node.
#
# A node without ranks fails when the run ends, because its launcher waits in a rendezvous that closes. With several
# spare nodes, a node that had ranks earlier can be such a node. The script therefore reports success for a failed node
# if another node succeeds within ten seconds.
CONTINUES = {
    "resume": "",
    "when_lost": "--no-kill --kill-on-bad-exit=0",
    "start": """status=0
  "$@" || status=$?
  succeeded=${PET_LOG_DIR%/*}/succeeded
  ((status)) || touch "$succeeded"
  for ((second = 0; status && second < 10; second++)); do
    sleep 1
    [[ ! -e $succeeded ]] || status=0
  done
  exit "$status\"""",
    "look": """  if ((SECONDS >= look)); then
    left=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%D) || left=$least
    if ((left < least)); then
      echo "trainway: the job is requeued, because only $left of at least $least nodes remain" >&2
      suspect=$(suspects "$run")
      if [[ $suspect ]] && replaceable idle,allocated,mixed "$SLURM_JOB_NUM_NODES" "$suspect"; then
        requeue "$suspect"
      else
        requeue ""
      fi
    fi
    look=$((SECONDS + 30))
  fi
""",
}


def continuing(request: Request) -> Request:
    """Return the request of a run that continues, in which a program's starter waits for the success of others."""
    return request if request.program.started_by is None else waiting_for_success(request, SECONDS_OF_SUCCESS)


def check_options(request: Request, options: SlurmOptions) -> None:
    """Raise UsageError if a job with these options cannot continue after a node failure."""
    cannot = partial(usage_error, f"{request.program.name} cannot continue when it loses a node")
    check_program(request.program, options, lambda why, fix: cannot(why=why, fix=fix))
    check_lost_nodes(request, options, lambda why, fix: cannot(why=why, fix=fix))
