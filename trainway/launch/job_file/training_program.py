"""The training job of this repository as a program."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

from trainway.launch.platform.locations import team_of
from trainway.launch.program.program import DeviceMemory, LogPatterns, Program, Stop
from trainway.launch.program.rank_launchers import ELASTIC
from trainway.launch.program.stopping import STATUSES_FOR_GOOD
from trainway.parts.job import Job, footprint
from trainway.spec import strict_yaml
from trainway.spec.handoff import HandOff

# Segments that grow in place, so that memory of another size is not lost between them.
# https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf (read 2026-11-23)
ALLOCATOR = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}

# The lines of the training job's log, as regular expressions. training/observe/metrics.py prints the lines. SageMaker
# reads metrics by them, and HyperPod's operator sees by them that a job makes progress. The operator's agent matches a
# line from its beginning.
# https://docs.aws.amazon.com/sagemaker/latest/dg/define-train-metrics.html (read 2026-11-21)
STEP_METRICS = (
    "loss",
    "grad_norm",
    "learning_rate",
    "tokens_per_second",
    "mfu",
    "step_seconds",
    "data_wait",
    "mfu_causal",
    "memory_gib",
)
# A value that is not known is printed as `-`, and a loss may be no number: neither is a point of a chart.
_NUMBER = r"(-?[0-9][0-9.e+-]*)"
# The launcher of the ranks puts `[default0]:` before what a rank writes.
_BEGINNING = r"(?:^|\]: ?)"
_FINITE = r"-?\d+\.\d+"

PATTERNS = LogPatterns(
    step=rf"step=\d+/\d+ loss={_FINITE} ",
    loss=rf"step=\d+/\d+ loss=({_FINITE}) ",
    step_seconds=r"step=\d+/\d+ .*\bstep_seconds=(\d+\.\d+)\b",
    end=r"end step=\d+/\d+ ",
)


def training_command(until_step: int | None = None) -> tuple[str, ...]:
    """Return the command that starts the ranks of a node."""
    return (*ELASTIC, *_until(until_step))


def training_program(job: Job, text: str, until_step: int | None = None) -> Program:
    """Return the program of a job, whose file says `text`, without what `programs.py` adds to programs of both kinds.

    The job stops after the step `until_step`, if given.
    """
    start_from = (job.checkpoint.start_from,) if job.checkpoint.start_from else ()
    data, checkpoints = tuple(job.data.shares), job.checkpoint_location
    return Program(
        name=job.name,
        text=text,
        nodes=job.nodes,
        team=job.team,
        image=job.image,
        command=training_command(until_step),
        rank_words=("-m", "training.train", *_until(until_step)),
        environment=ALLOCATOR,
        extras=("training",),
        secrets=job.trackers.secrets,
        inputs=data,
        locations=(*data, checkpoints, *start_from),
        written=(checkpoints,),
        default_checkpoints=None if job.checkpoint.location else checkpoints,
        local_disk=job.checkpoint.local_disk,
        check_ranks=job.layout,
        vendors=None if job.device == "cpu" else ("nvidia",),
        device_memory=None if job.device == "cpu" else cache(partial(device_memory, job)),
        rank_keys="`parallel` or `batch`",
        stop=Stop(ranks_listen=True),
        metrics=training_metrics(),
        fatal_statuses=STATUSES_FOR_GOOD,
        counts_restarts=True,
        log_patterns=PATTERNS,
    )


def _until(step: int | None) -> tuple[str, ...]:
    return () if step is None else (f"--until-step={step}",)


def with_checkpoints_of_team(program: Program, hand_off: HandOff) -> Program:
    """Return the program of a first launch with its default checkpoint location below the prefix of its team.

    The job file of the run names the location from then on. The program is unchanged if its team has no prefix of its
    own, or if it has no default location. Checkpoints whose prefix the platform file gives to the team stay where they
    were before teams had prefixes.
    """
    usual = program.default_checkpoints
    if usual is None:
        return program
    team = team_of(hand_off, program.team)
    if team is None or team not in hand_off.team_data:
        return program
    if f"checkpoints/{program.name}" in hand_off.team_data[team].own:
        return program
    located = f"s3:/checkpoints/{team}/{program.name}"
    evaluated, document = program.on_checkpoint, strict_yaml.read(program.text).data
    checkpoint = document.get("checkpoint") or {}
    return replace(
        program,
        default_checkpoints=None,
        text=strict_yaml.dump({**document, "checkpoint": {**checkpoint, "location": located}}),
        locations=tuple(located if each == usual else each for each in program.locations),
        written=(located,),
        on_checkpoint=evaluated and replace(evaluated, marker=evaluated.marker.replace(f"{usual}/", f"{located}/", 1)),
    )


def device_memory(job: Job, ranks: int) -> DeviceMemory:
    """Return what one of so many ranks needs on its device, and what it needs with the usual ways to need less."""
    needed = footprint(job, ranks)
    kinds = {kind: size / 2**30 for kind, size in vars(needed).items() if size}
    # Experts on other ranks are recomputed as a whole.
    mode = "full" if job.parallel.ep > 1 or job.memory.activation_checkpointing != "none" else "selective"
    chunks = next((n for n in (8, 4, 2) if job.data.sequence_length % n == 0), 1)
    asked = {
        "activation_checkpointing": mode,
        "checkpoint_every": 1,
        "loss_chunks": max(chunks, job.memory.loss_chunks),
    }
    changed = {key: value for key, value in asked.items() if value != getattr(job.memory, key)}
    memory = job.memory.model_copy(update=changed)
    less = footprint(job.model_copy(update={"memory": memory}), ranks).total / 2**30
    words = ", ".join(f"{key}: {value}" for key, value in changed.items())
    return DeviceMemory(
        needed.total / 2**30,
        (f"memory: {{{words}}}", less) if changed else None,
        tuple(sorted(kinds.items(), key=lambda each: -each[1])),
    )


def training_metrics() -> tuple[tuple[str, str], ...]:
    """Return the metrics of each step, and the loss of evaluations, each with its regular expression."""
    step = [(name, rf"{_BEGINNING}step=[0-9]+/[0-9]+ (?:.* )?{name}={_NUMBER}") for name in STEP_METRICS]
    return (*step, ("evaluation_loss", rf"{_BEGINNING}evaluation step=[0-9]+/[0-9]+ loss={_NUMBER}"))
