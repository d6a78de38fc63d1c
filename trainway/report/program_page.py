"""The page of a program that is not Trainway's training job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainway.report import words
from trainway.report.charts import HALF, MOST_POINTS, WIDE, Chart
from trainway.report.cost import cost_sentence
from trainway.report.documents import read_job, read_launch
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
        "charts": [number_chart(name, numbers) for name, numbers in list(found.numbers.items())[:MOST_CHARTS]],
        "launch": launch,
        "job": read_job(run),
        "clock": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC",
    }


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
    size = WIDE if name == "loss" else HALF
    return Chart(inline_svg(_identifier(name), f"Line chart of {name} by step", size, draw), caption)


def _identifier(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
