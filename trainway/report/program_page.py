"""The page of a program that is not Trainway's training job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainway.report import words
from trainway.report.cause import why_it_failed
from trainway.report.charts import HALF, MOST_POINTS, Chart, wide_chart
from trainway.report.cost import cost_sentence
from trainway.report.documents import read_evaluations, read_job, read_launch
from trainway.report.downsample import keep_extremes
from trainway.report.program_run import Number, ProgramRun, finite, read_program_run
from trainway.report.svg import FIRST, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CHARTS = 12


def program_values(run: Path) -> dict[str, Any]:
    """Return what the template program_page.html shows of a run. Raises RunUnreadable."""
    found, launch = read_program_run(run), read_launch(run)
    return {
        "run": found,
        "cost": cost_sentence(launch, sum(attempt.seconds for attempt in found.attempts)),
        "headline": ending_sentence(found),
        "what": what_ran(found),
        "next": what_next(found, run),
        "charts": [number_chart(name, numbers) for name, numbers in list(found.numbers.items())[:MOST_CHARTS]],
        "launch": launch,
        "job": read_job(run),
        "evaluations": read_evaluations(run),
        "clock": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC",
    }


def what_ran(run: ProgramRun) -> str:
    """Return what was run, in a sentence."""
    last = run.attempts[-1]
    times = f" It was started {words.plural(len(run.attempts), 'time')}." if len(run.attempts) > 1 else ""
    return f"The program of the job file {run.name}, on {words.plural(len(last.nodes), 'node')}.{times}"


def what_next(run: ProgramRun, directory: Path) -> str:
    """Return what a reader does next with a run that ended so. `directory` is the run's, and has its name."""
    name = directory.resolve().name
    if run.attempts[-1].outcome == "failed":
        return f"{why_it_failed(directory)} `trainway resume {name}` starts it again."
    return {
        "succeeded": f"`trainway copy {name}` brings its outputs to this machine.",
        "stopped": f"`trainway resume {name}` starts it again from what it kept.",
        "running": f"`trainway status {name}` says whether it still runs, `trainway explain {name}` why not.",
    }[run.attempts[-1].outcome]


def ending_sentence(run: ProgramRun) -> str:
    """Return how the last attempt ended, in a sentence."""
    last = run.attempts[-1]
    said = {
        "succeeded": "Finished",
        "stopped": "Stopped, because it was asked to",
        "failed": f"Failed: {last.reason}",
        "running": "Did not finish: it was killed, or it was still running when this page was written",
    }[last.outcome]
    return f"{said}."


def number_chart(name: str, numbers: tuple[Number, ...]) -> Chart:
    """Return the chart of a number by step."""
    shown = keep_extremes([(each.step, each.value) for each in numbers], MOST_POINTS)

    def draw(axes: Axes) -> None:
        axes.plot(*zip(*shown, strict=True), color=FIRST, marker="o" if len(shown) == 1 else None)
        axes.set_xlabel("step")
        axes.set_ylabel(name)

    known = finite(numbers)
    if not known:
        caption = f"{name}: not a finite number at any step."
    else:
        lowest, highest = (words.number(pick(each.value for each in known)) for pick in (min, max))
        first, last = words.number(known[0].value), words.number(known[-1].value)
        caption = f"{name}: {first} at step {known[0].step:,}, {last} at step {known[-1].step:,}. "
        caption += f"Lowest {lowest}, highest {highest}."
        if bad := len(numbers) - len(known):
            caption += f" At {words.plural(bad, 'step')} it is not a finite number."
    label = f"Line chart of {name} by step"
    if name == "loss":
        return wide_chart(_identifier(name), label, draw, caption)
    return Chart(inline_svg(_identifier(name), label, HALF, draw), caption)


def _identifier(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
