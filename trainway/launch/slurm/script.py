"""A request as a batch script: everything that a run needs is in it, the job file as well.

https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html (read 2026-11-21)
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainway.launch.node.node_of_run import RESTARTS
from trainway.launch.node.program_output import KEPT_IN
from trainway.launch.platform.locations import team_of
from trainway.launch.program.environment import metrics_environment
from trainway.launch.program.launcher_conflicts import starts_on_all_nodes
from trainway.launch.program.lost_nodes import NodeCounts, node_counts
from trainway.launch.program.program import without_launcher_files
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT, logging_to, many_nodes
from trainway.launch.program.request import OnNodes, Request, check_life_cycle
from trainway.launch.slurm.dependency import Earlier, earlier_run
from trainway.launch.slurm.interpreter import in_image, in_virtual_environment
from trainway.launch.slurm.lost_nodes import CONTINUES, ENDS, check_options, continuing
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.slurm.suspect_nodes import IN_SCRIPT
from trainway.launch.slurm.watch import LISTENS
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Instance
from trainway.spec.slurm.slurm_accounts import BORROWED, KILL_WAIT
from trainway.spec.slurm.slurm_nodes import GRES

# How long before its time limit a run is told to save and end.
_SAVING_SECONDS = 300
# Until the starters have seen that they are told, and afterwards until Slurm has seen the end.
_SECONDS_TO_TELL = 60
# From the end of a program to that of its step.
_SECONDS_TO_END = 10
# Names of nodes and of reservations, and Slurm's ranges of numbers in brackets.
_ONE_WORD = re.compile(r"[A-Za-z0-9_.,\[\]-]+")

# Slurm sends a signal to every process of a step: to training.elastic, which would give its ranks 30 seconds from then
# on, and to the ranks, which need the time that a checkpoint takes. So training.elastic does not listen, and the ranks
# do (training/hosts/stopping.py). The name is in torch/distributed/elastic/multiprocessing/api.py of PyTorch 2.11 to
# 2.13.
_LAUNCHER_LISTENS = {"TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGINT,SIGHUP,SIGQUIT"}

# What follows `run`, the run's directory, `options`, of the step, `code`, that was synced, and `command`, of each node.
#
# --cpu-bind=none, because a node's one task starts the ranks, whose processes share all of it.
#
# Each start of a run writes its logs to its own directory. A resumed run has several jobs, and SLURM_RESTART_COUNT
# counts the starts of one job. Therefore, this script counts the directories.
#
# Slurm's warning before the time limit, and what stops a run, are a signal to the script alone. It passes that on, and
# again a minute later: ranks that still start do not hear the first one. `kill -0` fails once the step has ended.
_STEP = """
resume=()
{resume}first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export PET_RDZV_ENDPOINT=$first:{port}
starts=$(find "$run/logs" -maxdepth 1 -name "start-*" | wc -l)
export PET_LOG_DIR=$run/logs/start-$starts
mkdir -p "$PET_LOG_DIR"

srun {when_lost} --cpu-bind=none --label "${{options[@]}}" "${{resume[@]}}" bash -c '
  set -euo pipefail
{ignore}  export PET_LOG_DIR=$PET_LOG_DIR/$SLURMD_NODENAME
  mkdir -p "$PET_LOG_DIR"
  if [[ $code ]]; then
    code=$(python3 "$TRAINWAY_RUN/synced_code.py" "$code" "/tmp/trainway-code-$UID")
    export PYTHONPATH=$code${{PYTHONPATH:+:$PYTHONPATH}}
  fi
  {start}
' node "${{command[@]}}" &
step=$!

tell=0
while kill -0 "$step" 2>/dev/null; do
  if [[ $outcome == stopped ]] && ((SECONDS >= tell)); then
    {tell}
    tell=$((SECONDS + 60))
  fi
{look}  sleep 5 &
  wait -n "$step" $! || true
done
status=0
wait "$step" || status=$?
if ((status)); then
  {failed}
fi
echo "$outcome" >"$run/outcome"
exit "$status"
"""


@dataclass(frozen=True)
class _Start:
    """What the script does for a program: `begins` before all files are written, `counts` after, `step` in the step.

    `logs` returns the environment variables of its logs, for the directory of the logs.
    """

    begins: tuple[str, ...]
    counts: tuple[str, ...]
    step: Mapping[str, str]
    logs: Callable[[PurePosixPath], dict[str, str]]


# Without a starter, the script itself gets rid of suspect nodes. Ranks that listen are told to stop by a signal to the
# step, which its other processes ignore.
_RANKS = _Start(
    begins=tuple(IN_SCRIPT.splitlines()),
    counts=(),
    step={
        "ignore": '  trap "" TERM USR1\n',
        "tell": 'kill -USR1 "$step" || true',
        "failed": 'outcome="failed with status $status"',
    },
    logs=lambda directory: logging_to(directory, prints=False),
)
# A step passes a signal on to all of its processes, and a program may not expect it in a single rank. So the starters
# (trainway/launch/node/start_program.py) are told by a file, and say by another one why the program failed.
_STARTERS = _Start(
    begins=(),
    counts=(
        'rm -f "$run/stop"',
        'export TRAINWAY_ATTEMPT=$(($(cat "$run/attempt" 2>/dev/null || echo 0) + 1))',
        'echo "$TRAINWAY_ATTEMPT" >"$run/attempt"',
    ),
    step={
        "ignore": "",
        "tell": 'date +%s >"$run/stop"',
        # The step's own status can be that of a node which was ended because another one failed.
        "failed": (
            'reason=$(cat "$run/attempts/$TRAINWAY_ATTEMPT/failure" 2>/dev/null) || reason="exit status $status"\n'
            '  outcome="failed: $reason"'
        ),
    },
    logs=lambda directory: {**logging_to(directory, shown_ranks="0"), KEPT_IN: "files"},
)


def check_job(request: Request, catalogue: Catalogue, options: SlurmOptions | None = None) -> None:
    """Raise UsageError for a job that Slurm cannot run, and for options that the platform does not support."""
    del catalogue
    _checked(request, options or SlurmOptions())


def render_script(request: Request, catalogue: Catalogue, options: SlurmOptions | None = None) -> str:
    """Return the script for sbatch. Raises UsageError as `check_job` does.

    It runs as often as the job is started: a job that lost a node or was preempted is queued again, and resumes from
    its latest checkpoint.
    """
    options = options or SlurmOptions()
    earlier = _checked(request, options)
    nodes = node_counts(request, options)
    if nodes.continues:
        request = continuing(request)
    on_nodes = request.on_nodes()
    instance = catalogue[request.allocation.group.instance_type]
    start = _RANKS if request.program.started_by is None else _STARTERS
    interpreter = (
        in_virtual_environment(options.environment, instance) if options.environment else in_image(request, on_nodes)
    )
    lines = [
        "#!/bin/bash",
        *(
            f"#SBATCH --{directive}"
            for directive in _directives(request, on_nodes.directory, nodes, instance, options, earlier)
        ),
        "set -euo pipefail",
        "",
        f"run={shlex.quote(str(on_nodes.directory))}",
        "outcome=succeeded",
        "trap 'outcome=stopped' USR1",
        # Before, the signal would end the script. `trainway stop` waits for this line (watch.py).
        f'echo "$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}" >"$run/{LISTENS}"',
        'rm -f "$run/outcome"',
        *(earlier.check if earlier else ()),
        *start.begins,
        *(_file(name, text) for name, text in on_nodes.files.items()),
        "",
        # sbatch brings whatever its caller has. Such credentials end before the job does; the nodes have a role.
        "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN",
        *(
            f"export {name}={shlex.quote(value)}"
            for name, value in sorted(_environment(request, on_nodes, nodes, start).items())
        ),
        *interpreter,
        *((f"least={nodes.least}", "look=0") if nodes.continues else ()),
        f"export code={shlex.quote(on_nodes.code or '')}",
        f"command=({shlex.join(on_nodes.command)})",
        *start.counts,
    ]
    lost = CONTINUES if nodes.continues else ENDS
    if _never_again(request):
        # HyperPod starts the step of a job again that --auto-resume names.
        lost = lost | {"resume": ""}
    return "\n".join(lines) + "\n" + _STEP.format(port=RENDEZVOUS_PORT, **start.step, **lost)


def _checked(request: Request, options: SlurmOptions) -> Earlier | None:
    """Return the run that has to succeed first. Raises UsageError as `check_job` does."""
    _check_has_team(request)
    check_life_cycle(request, "Slurm", keep="Slurm decides for the whole cluster how long it remembers jobs")
    if options.environment:
        _check_needs_no_image(request, options.environment)
    if options.continues:
        check_options(request, options)
    earlier = earlier_run(request, options.after) if options.after else None
    what = f"{request.program.name} cannot be launched under Slurm like that"
    if launcher := starts_on_all_nodes(request.program):
        why = f"each node runs the program, and {launcher} would start the ranks of all nodes again"
        raise usage_error(what, why=why, fix="write torchrun in the place of it, or submit the script with sbatch")
    if options.borrow:
        _check_borrowing(request)
    for name, value in (("exclude", options.exclude), ("reservation", options.reservation)):
        if value is not None and not _ONE_WORD.fullmatch(value):
            why = f"--{name} is {value!r}, and Slurm takes names with commas between them"
            raise usage_error(what, why=why, fix=f"write them without spaces, for example --{name} first,second")
    return earlier


def shown_script(script: str) -> str:
    """Return a script without the launcher's own files, with one line in their place."""
    return without_launcher_files(script, _files)


def _files(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{_file(name, text)}\n" for name, text in texts.items()}


def _file(name: str, text: str) -> str:
    """Return the lines that write a file into the directory of the run."""
    return f'cat >"$run/{name}" {heredoc(text)}'


def _check_has_team(request: Request) -> None:
    """Raise UsageError if the job names no team and only teams have data on the platform."""
    hand_off, name = request.hand_off, request.program.name
    if hand_off.team_data and team_of(hand_off, request.program.team) is None:
        why = f"only the teams of {hand_off.platform} have data, and the job file names none"
        raise usage_error(
            f"{name} cannot run without a team", why=why, fix=f"set team, for example {hand_off.teams[0]}"
        )


def _check_needs_no_image(request: Request, environment: PurePosixPath) -> None:
    """Raise UsageError if the job file requires an image, and the job is to run in a virtual environment."""
    what = f"{request.program.name} cannot run in {environment}"
    if "@" in request.image_name:
        raise usage_error(
            what, why=f"its job file names the image {request.image_name}", fix="leave --environment out, or run.image"
        )
    lock = request.program.lock
    if lock is not None and lock.is_for_image:
        raise usage_error(
            what,
            why="the lock of run.packages is for the training image",
            fix="install the packages into the virtual environment, and leave run.packages out, or leave --environment "
            "out",
        )


def _directives(
    request: Request,
    directory: PurePosixPath,
    nodes: NodeCounts,
    instance: Instance,
    options: SlurmOptions,
    earlier: Earlier | None,
) -> list[str]:
    accelerator = instance.accelerator
    directives = [
        f"job-name={request.run}",
        # HyperPod makes a partition of each node group (stacks/clusters/hyperpod_slurm.py). Slurm starts a job in one
        # partition of several, the one that is free first: https://slurm.schedmd.com/sbatch.html#OPT_partition
        # (read 2026-11-29)
        f"partition={','.join(group.name for group in request.allocation.groups)}",
        f"nodes={nodes.started}",
        "ntasks-per-node=1",
        "exclusive",
        # A run of the same name starts after the earlier one has ended.
        *(earlier.directives if earlier else ("dependency=singleton",)),
        "mem=0",
        # A preempted job is requeued in any case, and counts its starts (_environment).
        "no-requeue" if _never_again(request) and not options.borrow else "requeue",
        *(("no-kill",) if nodes.continues else ()),
        "open-mode=append",
        f"chdir={directory}",
        f"output={directory}/logs/slurm.log",
        # The limits of whoever submits would come along, and on a login node there is one for locked memory, which EFA
        # registers its buffers in. Those of the nodes are in lifecycle_scripts/steps/10-limits.sh.
        "propagate=NONE",
    ]
    if accelerator:
        # `exclusive` gives all accelerators of a node. This keeps away from a node that lost one.
        name, _ = GRES[accelerator.vendor]
        directives.append(f"gpus-per-node={accelerator.count}" if name == "gpu" else f"gres={name}:{accelerator.count}")
    if request.program.team:
        directives.append(f"account={request.program.team}")
    if options.borrow:
        directives.append(f"qos={BORROWED}")
    for name, value in (("exclude", options.exclude), ("reservation", options.reservation)):
        if value is not None:
            directives.append(f"{name}={value}")
    if options.time_limit_minutes is not None:
        directives += [f"time={options.time_limit_minutes}", f"signal=B:USR1@{_saving_seconds(request)}"]
    return directives


def _saving_seconds(request: Request) -> int:
    """Return how many seconds before its time limit a run is told to save and end."""
    return max(_SAVING_SECONDS, (request.program.stop.grace_seconds or 0) + _SECONDS_TO_TELL)


def _check_borrowing(request: Request) -> None:
    what = f"{request.program.name} cannot borrow nodes"
    if not request.hand_off.teams:
        why = f"{request.hand_off.platform} has no teams"
        raise usage_error(what, why=why, fix="launch it without --borrow: all nodes are everybody's")
    grace, longest = request.program.stop.grace_seconds or 0, KILL_WAIT - _SECONDS_TO_END
    if grace > longest:
        why = f"Slurm kills a preempted job {KILL_WAIT} seconds after its signal, and stop.grace is {grace}"
        raise usage_error(what, why=why, fix=f"set run.stop.grace to {longest} at most, or launch without --borrow")


def _environment(request: Request, on_nodes: OnNodes, nodes: NodeCounts, start: _Start) -> dict[str, str]:
    ranks = many_nodes(
        nodes.nnodes,
        request.allocation.ranks,
        endpoint="",
        run=request.run,
        max_restarts=request.program.life_cycle.process_restarts,
    )
    del ranks["PET_RDZV_ENDPOINT"]  # what the script finds out
    life_cycle = request.program.life_cycle
    counted = {RESTARTS: str(life_cycle.restarts)} if "restarts" in life_cycle.stated else {}
    listens = _LAUNCHER_LISTENS if request.program.stop.ranks_listen else {}
    # Nothing bounds slurm.log, so the files of the ranks, or of the starter, have the lines of the program alone. The
    # starter reads those of the ranks from their launcher.
    logs = start.logs(on_nodes.directory / "logs")
    return request.environment(on_nodes) | ranks | metrics_environment() | logs | listens | counted


def _never_again(request: Request) -> bool:
    life_cycle = request.program.life_cycle
    return "restarts" in life_cycle.stated and not life_cycle.restarts


def heredoc(text: str) -> str:
    """Return a here-document that passes any text to the command before it."""
    end = "END"
    while end in text.splitlines():
        end += "_"
    return f"<<'{end}'\n{text.removesuffix(chr(10))}\n{end}"
