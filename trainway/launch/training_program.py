"""The training job of this repository as a program."""

from __future__ import annotations

from trainway.launch.program import Program, RunLifeCycle, Stop
from trainway.launch.target_sections import options_in
from trainway.launch.training_command import training_command
from trainway.launch.training_lines import PATTERNS, training_metrics
from trainway.parts.job import Job


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
        extras=("training",),
        inputs=tuple(job.data.shares),
        locations=(*job.data.shares, job.checkpoint_location, *start_from),
        check_ranks=job.layout,
        rank_keys="`parallel` or `batch`",
        stop=Stop(ranks_listen=True),
        metrics=training_metrics(),
        options=options_in(job),
        log_patterns=PATTERNS,
    )
