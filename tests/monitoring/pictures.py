"""`python -m tests.monitoring.pictures` draws docs/pictures/dashboard.svg: panels of a platform on EKS.

No Grafana draws it. The queries are those of the dashboard's own JSON, a real Prometheus answers them, and the charts
are drawn like those of a run's report.
"""

from __future__ import annotations

import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.generators.screens import PICTURES
from tests.monitoring.story import END, START, story_platform, told
from tests.prometheus import Prometheus
from trainway.monitoring.grafana import COLUMNS, grafana_dashboard
from trainway.report.svg import FIRST, MARK, SECOND, inline_svg
from trainway.spec.facts.catalogue import load_catalogue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = (
    "GPUs: utilization",
    "GPUs idle, by job",
    "Idle GPUs: who holds them, and since when",
    "GPUs allocated, by team",
    "GPUs used, by team",
    "GPU-hours above the guarantee, by team",
    "US dollars an hour allocated, by team",
    "US dollars an hour used, by team",
    "Sent over EFA",
)
FIRST_SECOND = START + 3600
# Pixels of a panel with its title, and seconds between two points of a line.
WIDTH, HEIGHT, TITLE, MARGIN, STEP = 330, 200, 26, 12, 600
COLORS = (FIRST, SECOND, MARK)
# The forms of values by Grafana's names of units.
FORMS: dict[str, Callable[[float], str]] = {
    "percent": "{:.0f} %".format,
    "Bps": lambda value: f"{value / 1e9:.0f} GB/s",
    "currencyUSD": "${:.0f}".format,
    "short": "{:g}".format,
}
STYLE = (
    "svg{font-family:system-ui,'DejaVu Sans',sans-serif;color:#d8dee9;"
    "--grid:#3b4252;--first:#8fb8ff;--second:#8bd49c;--mark:#ff9d8a}"
)


def picture() -> str:
    """Return the picture of the dashboard."""
    shown = story_platform("eks")
    every = {panel["title"]: panel for panel in grafana_dashboard(shown, load_catalogue())["panels"]}
    with tempfile.TemporaryDirectory() as directory, told(shown, Path(directory)) as store:
        # It reads its store before it answers.
        store.answer(f"trainway_run_info @ {END}")
        parts = [part for at, title in enumerate(SHOWN) for part in _panel(store, every[title], at)]
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, -(-len(SHOWN) // COLUMNS) * (HEIGHT + TITLE + MARGIN) + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    return "\n".join([head, f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="#1b1f2a"/>', *parts]) + (
        "\n</svg>\n"
    )


def _panel(store: Prometheus, panel: dict[str, Any], at: int) -> Iterator[str]:
    line, column = divmod(at, COLUMNS)
    x, y = MARGIN + column * (WIDTH + MARGIN), MARGIN + line * (HEIGHT + TITLE + MARGIN)
    yield f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT + TITLE}" rx="4" fill="#242936"/>'
    yield f'<text x="{x + 8}" y="{y + 18}" font-size="12" fill="#d8dee9">{escape(panel["title"])}</text>'
    (target,) = panel["targets"]
    if panel["type"] == "table":
        rows = [_row(target["legendFormat"], *each) for each in store.query(target["expr"], END)]
        for number, text in enumerate(rows):
            place = f'x="{x + 8}" y="{y + TITLE + 20 + 18 * number}"'
            yield f'<text {place} font-size="11" fill="#ff9d8a">{escape(text)}</text>'
        return
    chart = ET.fromstring(_chart(store, panel, f"panel{at}"))
    for name, value in {"x": x, "y": y + TITLE, "width": WIDTH, "height": HEIGHT}.items():
        chart.set(name, str(value))
    yield ET.tostring(chart, encoding="unicode")


def _row(legend: str, labels: dict[str, str], milliseconds: float) -> str:
    return f"{_legend(legend, labels)}, since {datetime.fromtimestamp(milliseconds / 1000, UTC):%H:%M}"


def _legend(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda match: labels[match[1]], legend)


def _chart(store: Prometheus, panel: dict[str, Any], name: str) -> str:
    """Return a line for each series, named as the legend says, as inline SVG."""
    from matplotlib.ticker import FuncFormatter

    (target,) = panel["targets"]
    found = store.over_time(target["expr"], range(FIRST_SECOND, END, STEP))
    if not found:
        raise ValueError(f"{panel['title']} has no data")
    written = FORMS[panel["fieldConfig"]["defaults"]["unit"]]
    named = sorted((_legend(target["legendFormat"], labels), points) for labels, points in found)

    def draw(axes: Axes) -> None:
        for number, (legend, points) in enumerate(named):
            times, values = zip(*points, strict=True)
            axes.plot(times, values, color=COLORS[number], label=legend)
        axes.set_ylim(0, 1.25 * max(value for _, points in named for _, value in points))
        axes.set_xlim(FIRST_SECOND, END)
        axes.set_xticks(range(FIRST_SECOND, END, 2 * 3600))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{datetime.fromtimestamp(at, UTC):%H:%M}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))
        axes.legend(loc="upper left", fontsize=8, ncols=3)

    return str(inline_svg(name, panel["title"], (WIDTH / 72, HEIGHT / 72), draw))


def main() -> None:
    """Write the pictures."""
    (PICTURES / "dashboard.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
