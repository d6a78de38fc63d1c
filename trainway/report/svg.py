"""Convert a matplotlib figure to SVG that is part of the page and uses its colors and font."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

# matplotlib requires numeric colors, and the page has two palettes, light and dark. Charts are therefore drawn in
# placeholder colors, which become the page's own variables. See style.html for their values.
INK, GRID, FIRST, SECOND, MARK = "#010101", "#010102", "#010103", "#010104", "#010105"
PHASE_COLORS = {
    "data_wait": "#010201",
    "forward": "#010202",
    "backward": "#010203",
    "optimizer": "#010204",
    "checkpoint": "#010205",
    "other": "#010206",
}
_ON_PAGE = {
    INK: "currentColor",
    GRID: "var(--grid)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    MARK: "var(--mark)",
} | {color: f"var(--{phase.replace('_', '-')})" for phase, color in PHASE_COLORS.items()}

_STYLE: dict[RcKeyType, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "svg.fonttype": "none",
}
_SVG = "http://www.w3.org/2000/svg"
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d+")


def inline_svg(name: str, label: str, inches: tuple[float, float], draw: Callable[[Axes], None]) -> Markup:
    """Return the drawing of `draw` as an SVG element of this width and height, which scales to the available width.

    The same drawing always gives the same text. `name` keeps the IDs of a page's charts apart. `label` is the text that
    a screen reader reads instead of the chart.
    """
    import matplotlib
    from matplotlib.figure import Figure

    written = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's own matplotlibrc must not change the page
        matplotlib.rcParams.update(_STYLE | {"svg.hashsalt": name})
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Markup(_for_page(written.getvalue(), label))  # our own markup, in which ElementTree has escaped the text


def _for_page(svg: bytes, label: str) -> str:
    root = ET.fromstring(svg)
    for size in ("width", "height"):
        root.attrib.pop(size)  # in points; the page sets the size, and viewBox keeps the proportions
    root.set("role", "img")
    root.set("aria-label", label)
    _drop(root, "metadata", "style")
    used = {element.get(_XLINK_HREF, "#").removeprefix("#") for element in root.iter()}
    used |= {match for element in root.iter() for match in re.findall(r"url\(#(\w+)\)", element.get("clip-path", ""))}
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        if element.get("id") not in used:
            element.attrib.pop("id", None)  # figure_1, axes_1, …: not unique on a page
        if link := element.attrib.pop(_XLINK_HREF, None):
            element.set("href", link)
        if path := element.get("d"):
            element.set("d", " ".join(_NUMBER.sub(_hundredths, path).split()))
        if style := element.get("style"):
            element.set("style", _page_style(style))
    return ET.tostring(root, encoding="unicode")


def _drop(element: ET.Element, *names: str) -> None:
    for child in list(element):
        if child.tag in {f"{{{_SVG}}}{name}" for name in names}:
            element.remove(child)
        else:
            _drop(child, *names)


def _hundredths(match: re.Match[str]) -> str:
    """Return a coordinate rounded to a hundredth of a point: a third of the bytes, without a visible difference."""
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _page_style(style: str) -> str:
    """Return the style with the page's colors, and without the font family, which the page sets."""
    for number, name in _ON_PAGE.items():
        style = style.replace(number, name)
    style = re.sub(r"font: (?:[a-z]+ )*([\d.]+px) [^;]+", r"font-size: \1", style)
    return re.sub(r"font-family: [^;]+;?\s*", "", style)
