"""The charts of a run. Each is a picture with a caption that states its numbers in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from trainway.report import words
from trainway.report.downsample import keep_extremes, stretch_means
from trainway.report.events import PHASES, Step
from trainway.report.history import History
from trainway.report.svg import FIRST, MARK, PHASE_COLORS, SECOND, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches. Text has 10 points: a chart for a telephone is drawn for its width, so that its text is legible there.
WIDE, HALF, SMALL = (8.0, 3.2), (4.6, 2.7), (4.2, 3.2)
MOST_POINTS = 1000
MOST_POINTS_IF_SMALL = 300
MOST_BARS = 200
MOST_RESUME_LABELS = 5
# A norm that exceeds its median by more than this factor would flatten everything else on a linear scale.
LOG_SCALE_ABOVE_MEDIANS = 30


class Chart(NamedTuple):
    """An inline SVG element and the sentences below it. `small` is the drawing for a narrow screen, if it needs one."""

    svg: Markup
    caption: str
    small: Markup | None = None


def wide_chart(name: str, label: str, draw: Callable[[Axes], None], caption: str) -> Chart:
    """Return a chart over the whole width of the page, with a drawing of its own for narrow screens."""
    svg = inline_svg(name, label, WIDE, draw)
    return Chart(svg, caption, inline_svg(f"{name}-small", label, SMALL, draw))


class PhaseShare(NamedTuple):
    """The time of a phase: seconds in the median step, seconds in the whole run, and share of all step time."""

    phase: str
    median_seconds: float
    total_seconds: float
    share: float


def loss_chart(history: History) -> Chart:
    """Return the chart of the loss, with the first and the final step and every resume marked."""
    steps = history.steps
    first, final = steps[0], steps[-1]

    def draw(axes: Axes) -> None:
        _line(axes, steps, [step.loss for step in steps])
        _mark_resumes(axes, history.resumes)
        _axis_of_steps(axes, steps)
        axes.set_ylabel("loss (nats per token)")
        for step, word, offset in ((first, "first", (7, 4)), (final, "final", (7, -3))):
            if math.isfinite(step.loss) and not (word == "first" and len(steps) == 1):
                axes.plot(step.step, step.loss, "o", color=FIRST, markersize=4)
                axes.annotate(
                    f"{word} {words.loss(step.loss)}",
                    (step.step, step.loss),
                    xytext=offset,
                    textcoords="offset points",
                    fontweight="bold",
                    annotation_clip=False,
                )

    caption = f"Loss of the global batch, {words.loss(first.loss)} at step {first.step:,}"
    if len(steps) > 1:
        caption += f" and {words.loss(final.loss)} at step {final.step:,}"
    finite = [step for step in steps if math.isfinite(step.loss)]
    if len(finite) > 1:
        lowest = min(finite, key=lambda step: step.loss)
        caption += f"; the lowest is {words.loss(lowest.loss)}, at step {lowest.step:,}"
    caption += "."
    if bad := len(steps) - len(finite):
        caption += (
            f" At {words.plural(bad, 'step')} the loss is not a finite number, first at step "
            f"{history.first_bad_step:,}; the line has a gap there."
        )
    if history.resumes:
        after = words.listing([f"{step:,}" for step in history.resumes])
        caption += f" Dashed: resumed from the checkpoint of step {after}."
    caption += _thinned(steps)
    return wide_chart("loss", "Line chart of the loss by step", draw, caption)


def throughput_chart(steps: Sequence[Step]) -> Chart:
    """Return the chart of tokens per second over all ranks, with the median marked."""
    rates = [step.tokens_per_second for step in steps]
    usual = median(rates)

    def draw(axes: Axes) -> None:
        _line(axes, steps, rates)
        axes.axhline(usual, color=SECOND, linestyle="--", linewidth=1)
        _from_zero(axes, rates)
        _axis_of_steps(axes, steps)
        axes.set_ylabel("tokens per second")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

    caption = (
        f"Tokens per second over all ranks: median {words.number(usual)} (dashed line), lowest "
        f"{words.number(min(rates))}, highest {words.number(max(rates))}.{_thinned(steps)}"
    )
    return wide_chart("throughput", "Line chart of tokens per second by step", draw, caption)


def mfu_chart(steps: Sequence[Step]) -> Chart | None:
    """Return the chart of model FLOP/s utilization, or None if it is not known for the device."""
    known = [(step, step.mfu) for step in steps if step.mfu is not None]
    if not known:
        return None
    values = [value for _, value in known]

    def draw(axes: Axes) -> None:
        percentages = [100 * value for value in values]
        _line(axes, [step for step, _ in known], percentages)
        _from_zero(axes, percentages)
        _axis_of_steps(axes, steps)
        axes.set_ylabel("MFU (%)")

    caption = (
        f"Model FLOP/s utilization (MFU): median {words.percent(median(values))}, highest "
        f"{words.percent(max(values))} of the device's peak at this precision."
    )
    if missing := len(steps) - len(known):
        caption += f" It is not known for {words.plural(missing, 'step')}."
    caption += _thinned(steps)
    return wide_chart("mfu", "Line chart of model FLOP/s utilization by step", draw, caption)


def phase_shares(steps: Sequence[Step]) -> list[PhaseShare]:
    """Return the time of each phase over the run, in the order of the phases in a step."""
    whole = sum(step.step_seconds for step in steps)
    shares = []
    for phase in PHASES:
        seconds = [float(getattr(step.breakdown, phase)) for step in steps]
        shares.append(PhaseShare(phase, median(seconds), sum(seconds), sum(seconds) / whole if whole else 0.0))
    return shares


def breakdown_chart(steps: Sequence[Step]) -> Chart:
    """Return the chart of a step's seconds, stacked by phase. Long runs show means of neighboring steps."""
    rows = [[float(getattr(step.breakdown, phase)) for phase in PHASES] for step in steps]
    begins, means = stretch_means(rows, MOST_BARS)
    edges = [steps[begin].step - 0.5 for begin in begins] + [steps[-1].step + 0.5]

    def draw(axes: Axes) -> None:
        below = [0.0] * len(means)
        for column, phase in enumerate(PHASES):
            top = [base + mean[column] for base, mean in zip(below, means, strict=True)]
            axes.stairs(
                top, edges, baseline=below, fill=True, color=PHASE_COLORS[phase], linewidth=0, label=_name(phase)
            )
            below = top
        _from_zero(axes, below)
        _axis_of_steps(axes, steps)
        axes.set_ylabel("seconds per step")
        columns = len(PHASES) // 2 if _is_small(axes) else len(PHASES)
        axes.figure.legend(loc="outside upper left", ncols=columns, handlelength=1, columnspacing=1.2)

    largest = sorted(phase_shares(steps), key=lambda share: -share.share)[:3]
    shares = words.listing([f"{_name(share.phase)} {words.percent(share.share)}" for share in largest])
    usual = words.duration(median(step.step_seconds for step in steps))
    caption = f"Where the time of a step goes. The median step takes {usual}; of all step time, {shares}."
    if len(means) < len(steps):
        caption += f" Each of the {len(means)} bars is the mean of neighboring steps."
    return wide_chart("breakdown", "Stacked bar chart of the seconds of a step by phase", draw, caption)


def learning_rate_chart(steps: Sequence[Step]) -> Chart:
    """Return the chart of the learning rate."""
    rates = [step.learning_rate for step in steps]

    def draw(axes: Axes) -> None:
        _line(axes, steps, rates)
        _from_zero(axes, rates)
        _axis_of_steps(axes, steps)
        axes.set_ylabel("learning rate")

    peak = max(steps, key=lambda step: step.learning_rate)
    caption = (
        f"Learning rate: highest {peak.learning_rate:.3g} at step {peak.step:,}, {rates[-1]:.3g} at step "
        f"{steps[-1].step:,}."
    )
    return Chart(inline_svg("learning-rate", "Line chart of the learning rate by step", HALF, draw), caption)


def grad_norm_chart(steps: Sequence[Step]) -> Chart:
    """Return the chart of the gradient norm before clipping, on a logarithmic scale if it spikes."""
    norms = [step.grad_norm for step in steps]
    finite = [norm for norm in norms if math.isfinite(norm)]
    usual = median(finite) if finite else math.nan
    logarithmic = bool(finite) and min(finite) > 0 and max(finite) > LOG_SCALE_ABOVE_MEDIANS * usual

    def draw(axes: Axes) -> None:
        _line(axes, steps, norms)
        if logarithmic:
            axes.set_yscale("log")
        else:
            _from_zero(axes, norms)
        _axis_of_steps(axes, steps)
        axes.set_ylabel("gradient norm (log scale)" if logarithmic else "gradient norm")

    if finite:
        caption = f"Gradient norm before clipping: median {words.number(usual)}, highest {words.number(max(finite))}."
    else:
        caption = "Gradient norm: not a finite number at any step."
    if finite and (bad := len(norms) - len(finite)):
        caption += f" At {words.plural(bad, 'step')} it is not a finite number."
    caption += _thinned(steps)
    return Chart(inline_svg("grad-norm", "Line chart of the gradient norm by step", HALF, draw), caption)


def _line(axes: Axes, steps: Sequence[Step], values: Sequence[float]) -> None:
    """Draw the values by step. Values beyond MOST_POINTS become a pale line of extremes under a line of means."""
    most = MOST_POINTS_IF_SMALL if _is_small(axes) else MOST_POINTS
    points = keep_extremes([(step.step, value) for step, value in zip(steps, values, strict=True)], most)
    x, y = zip(*points, strict=True)
    alone = len(points) == 1  # a line needs two points to be visible
    if len(steps) <= most:
        axes.plot(x, y, color=FIRST, marker="o" if alone else None)
        return
    axes.plot(x, y, color=FIRST, alpha=0.35, linewidth=0.7)
    _, means = stretch_means([(step.step, value) for step, value in zip(steps, values, strict=True)], MOST_BARS)
    axes.plot([step for step, _ in means], [value for _, value in means], color=FIRST)


def _is_small(axes: Axes) -> bool:
    """Return whether a drawing is for a narrow screen."""
    return bool(axes.figure.bbox.width < HALF[0] * axes.figure.dpi)


def _thinned(steps: Sequence[Step]) -> str:
    if len(steps) <= MOST_POINTS:
        return ""
    return " The pale band spans the lowest and the highest of neighboring steps; the line is their mean."


def _axis_of_steps(axes: Axes, steps: Sequence[Step]) -> None:
    """Give every chart the same range of steps, so that they can be compared."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    room = 0.5 + 0.01 * (steps[-1].step - steps[0].step)
    axes.set_xlim(steps[0].step - room, steps[-1].step + room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _from_zero(axes: Axes, values: Sequence[float]) -> None:
    highest = max((value for value in values if math.isfinite(value)), default=0.0)
    axes.set_ylim(0, 1.08 * highest if highest > 0 else 1)


def _mark_resumes(axes: Axes, resumes: Sequence[int]) -> None:
    for after in resumes:
        axes.axvline(after + 0.5, color=MARK, linestyle="--", linewidth=1)
        if len(resumes) <= MOST_RESUME_LABELS:
            axes.annotate(
                f"resumed from {after:,}",
                (after + 0.5, 1),
                xycoords=axes.get_xaxis_transform(),
                xytext=(4, -2),
                textcoords="offset points",
                va="top",
                color=MARK,
            )


def _name(phase: str) -> str:
    return phase.replace("_", " ")
