"""The training job of this repository as a program."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from trainway.launch.job_file.job_trackers import program_trackers
from trainway.launch.job_file.training_lines import PATTERNS, training_metrics
from trainway.launch.platform.locations import team_of
from trainway.launch.program.program import DeviceMemory, Program, RunLifeCycle, Stop
from trainway.launch.program.training_command import training_command
from trainway.launch.target.options import options_in
from trainway.parts.job import Job, footprint
from trainway.spec import strict_yaml
from trainway.spec.handoff import HandOff

# Segments that grow in place, so that memory of another size is not lost between them.
# https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf (read 2026-11-23)
ALLOCATOR = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}


def training_program(job: Job, text: str, until_step: int | None = None) -> Program:
    """Return the program of a job, whose file says `text`. The job stops after the step `until_step`, if given."""
    start_from = (job.checkpoint.start_from,) if job.checkpoint.start_from else ()
    return Program(
        name=job.name,
        text=text,
        nodes=job.nodes,
        team=job.team,
        image=job.image,
        life_cycle=RunLifeCycle.of(job.life_cycle),
        command=training_command(until_step),
        environment=ALLOCATOR,
        extras=("training",),
        secrets=job.trackers.secrets,
        trackers=program_trackers(job.trackers, job.name),
        inputs=tuple(job.data.shares),
        locations=(*job.data.shares, job.checkpoint_location, *start_from),
        written=(job.checkpoint_location,),
        local_disk=job.checkpoint.local_disk,
        check_ranks=job.layout,
        vendors=None if job.device == "cpu" else ("nvidia",),
        device_memory=None if job.device == "cpu" else partial(device_memory, job),
        rank_keys="`parallel` or `batch`",
        stop=Stop(ranks_listen=True),
        metrics=training_metrics(),
        options=options_in(job),
        log_patterns=PATTERNS,
    )


def with_checkpoints_of_team(program: Program, hand_off: HandOff) -> Program:
    """Return the program of a first launch with its default checkpoint location below the prefix of its team.

    The job file of the run names the location from then on. The program is unchanged if its team has no prefix of its
    own, if its job file names a location, or if it is no training job of this repository. Checkpoints whose prefix the
    platform file gives to the team stay where they were before teams had prefixes.
    """
    team = team_of(hand_off, program.team)
    document = strict_yaml.read(program.text).data
    checkpoint = document.get("checkpoint") or {}
    if team is None or team not in hand_off.team_data or "run" in document or checkpoint.get("location"):
        return program
    if f"checkpoints/{program.name}" in hand_off.team_data[team].own:
        return program
    (usual,) = program.written
    located = f"s3:/checkpoints/{team}/{program.name}"
    evaluated = program.on_checkpoint
    return replace(
        program,
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
