"""The page of a run: all contents of its directory, in the order in which a reader needs them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from trainway.report import charts, words
from trainway.report.cause import why_it_failed
from trainway.report.cost import cost_sentence
from trainway.report.documents import Launch, read_deployment, read_evaluations, read_job, read_launch
from trainway.report.events import IntervalChosen, read_events
from trainway.report.goodput import USES, goodput
from trainway.report.history import Attempt, History, make_history
from trainway.report.program_page import program_values
from trainway.report.program_run import is_program_run

if TYPE_CHECKING:
    from jinja2 import Template

FILTERS = {
    "duration": words.duration,
    "loss": words.loss,
    "number": words.number,
    "percent": words.percent,
    "plural": words.plural,
    "short": words.short,
    "shell": shlex.join,
    "commands": words.commands,
}


def render(run: Path) -> str:
    """Return the HTML of the report of `run`.

    Raises:
        RunUnreadable: the directory is not that of a run, or a file in it is damaged.
    """
    if is_program_run(run):
        return template("program_page.html").render(**program_values(run))
    events = read_events(run)
    history = make_history(events)
    launch = read_launch(run)
    return template("page.html").render(
        history=history,
        start=history.start,
        summary=history.summary(),
        headline=outcome_headline(history),
        what=what_ran(history, launch),
        next=what_next(history, launch, run),
        progress=progress_sentence(history),
        interval=interval_sentence(history.interval),
        cost=cost_sentence(launch, history.seconds),
        attempts=[(attempt, attempt_ending(attempt)) for attempt in history.attempts],
        median_mfu=median_mfu(history),
        goodput=goodput(events),
        uses=USES,
        launch=launch,
        job=read_job(run),
        evaluations=read_evaluations(run),
        deployment=read_deployment(run),
        **drawings(history),
    )


def template(name: str, filters: Mapping[str, Callable[..., Any]] | None = None) -> Template:
    """Return a template of this directory, with further filters. It escapes all values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**FILTERS, **(filters or {})}
    return environment.get_template(name)


def drawings(history: History) -> dict[str, Any]:
    """Return the charts and their data, by their names in the template. `charts` is None without a step."""
    steps = history.steps
    if not steps:
        return {"charts": None, "shares": []}
    return {
        "charts": {
            "loss": charts.loss_chart(history),
            "throughput": charts.throughput_chart(steps),
            "mfu": charts.mfu_chart(steps),
            "breakdown": charts.breakdown_chart(steps),
            "learning_rate": charts.learning_rate_chart(steps),
            "grad_norm": charts.grad_norm_chart(steps),
        },
        "shares": charts.phase_shares(steps),
    }


def outcome_headline(history: History) -> str:
    """Return how the run ended, in a few words."""
    reached = f"step {history.last_step:,} of {history.start.steps:,}"
    if history.outcome == "finished":
        return f"Finished: {reached}."
    if history.outcome == "stopped":
        return f"Stopped in order at {reached}."
    if history.last_step == 0:
        return "Did not finish: no step was reported."
    return f"Did not finish: {reached} is the last that was reported."


def what_ran(history: History, launch: Launch | None) -> str:
    """Return what was run: the model, on what, and by which target."""
    start = history.start
    where = f", launched on {launch.target}" if launch else ""
    processes = words.plural(start.world_size, "process", "processes")
    return (
        f"Training of the model {start.model}, with {words.short(start.parameters)} parameters, on {processes} "
        f"({start.device}){where}."
    )


def what_next(history: History, launch: Launch | None, run: Path) -> str:
    """Return what a reader does next: use the weights, or mend what ended the run, and resume it.

    Commands are in backticks. `run` is the run's directory.
    """
    newest = history.checkpoints[-1] if history.checkpoints else None
    if history.outcome == "finished":
        if newest is None:
            return "Nothing was kept but this page and the logs: the job file has no checkpoints."
        return (
            f"The weights are in {newest.location}. "
            "`python -m training.hugging_face export` writes them in Hugging Face's format."
        )
    sentences = []
    if history.outcome == "unfinished":
        if launch is None or launch.ended is None:
            sentences.append("It was killed, or it was still running when this page was written.")
        elif launch.exit_status is not None:
            sentences.append(f"The command ended with exit status {launch.exit_status}; logs/ has what each rank said.")
        if launch is not None:
            sentences.append(why_it_failed(run))
    again = f"`trainway resume {run.resolve().name}`" if launch else "The same command"
    if newest:
        sentences.append(f"{again} resumes from the checkpoint of step {newest.step:,}.")
    else:
        sentences.append(f"{again} begins again: no checkpoint was written.")
    return " ".join(sentences)


def progress_sentence(history: History) -> str:
    """Return the result of a run: first and last loss, tokens, and duration."""
    if not history.steps:
        return "No step was recorded, so there are no curves."
    first, final = history.steps[0], history.steps[-1]
    spent = f"{words.short(final.tokens)} tokens, in {words.duration(history.seconds)} of training"
    if history.first_bad_step is not None:
        ended = f"and ended at {words.loss(final.loss)}" if math.isfinite(final.loss) else "and did not recover"
        return (
            f"The loss began at {words.loss(first.loss)}, was not a finite number at step "
            f"{history.first_bad_step:,} for the first time, {ended}, over {spent}."
        )
    if final.loss == first.loss:
        return f"The loss is {words.loss(final.loss)} after {spent}."
    verb = "fell" if final.loss < first.loss else "rose"
    return f"The loss {verb} from {words.loss(first.loss)} to {words.loss(final.loss)} over {spent}."


def interval_sentence(interval: IntervalChosen | None) -> str | None:
    """Return the interval between checkpoints that the job chose, with its inputs, or None if it chose none."""
    if interval is None:
        return None
    reasons = {
        "optimum": "which loses the least time",
        "write": "because a checkpoint takes that long to write",
        "step": "because an interval has at least one step",
    }
    save, write, step = map(words.duration, (interval.stall_seconds, interval.write_seconds, interval.step_seconds))
    return (
        f"The job chose {words.plural(interval.steps, 'step')} ({words.duration(interval.seconds)}) between "
        f"checkpoints, {reasons[interval.bound]}. A save stops training for {save} and is complete after {write}. A "
        f"step takes {step}. The run has {words.plural(interval.nodes, 'node')}, and expects "
        f"{interval.interruptions_per_1000_node_days:g} interruptions per 1,000 node-days."
    )


def attempt_ending(attempt: Attempt) -> str:
    """Return how one attempt ended."""
    if attempt.end is None:
        return "broke off"
    return "finished" if attempt.end.step >= attempt.start.steps else "stopped in order"


def median_mfu(history: History) -> float | None:
    """Return the median model FLOP/s utilization as a fraction, or None if it is not known for the device."""
    known = [step.mfu for step in history.steps if step.mfu is not None]
    return median(known) if known else None
