"""`python -m docs.generators.screens` draws docs/pictures, the screens of the README, from commands that it runs.

The picture of the report requires Chromium (`apt-get install chromium`), and trains a model for a minute.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from docs.generators import ROOT
from tests.known_day import ON_KNOWN_DAY

PICTURES = ROOT / "docs" / "pictures"
TRAINWAY = Path(sys.executable).with_name("trainway")
# A platform file with a wrong zone, a misspelled instance type, and a capacity that FSx does not sell.
WRONG = """\
name: atlas
region: us-west-2
zones: [usw2-az9, usw2-az1]
orchestrator: hyperpod-eks
node_groups:
  - {name: train, instance_type: p5.48xlarg, count: 4}
storage:
  lustre: {capacity_tib: 9.7, throughput_mbps_per_tib: 500, efa: true}
kubernetes:
  admins: ["arn:aws:iam::111122223333:role/platform"]
"""
# Sizes in pixels. A character of a monospaced font is 0.6 of its size wide.
FONT, LINE, MARGIN = 13, 19, 16
REPORT_SIZE = "1000,1200"
# Width of the terminal in characters.
COLUMNS = 120


def screen_of_check() -> str:
    """Return the SVG picture of `trainway check` on a file with three mistakes."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "platform.yaml").write_text(WRONG, encoding="utf-8")
        printed = _run("check", "platform.yaml", *ON_KNOWN_DAY, directory=Path(directory))
    return draw("trainway check platform.yaml", printed.splitlines())


def screen_of_plan() -> str:
    """Return the SVG picture of the prices of `trainway plan`, for the platform file of `make run`."""
    printed = _run("plan", "platform.yaml", directory=ROOT)
    prices = re.search(r"^price .*?^total of the known[^\n]*", printed, re.MULTILINE | re.DOTALL)
    subnets = re.search(r"^subnet .*?(?=\n\n)", printed, re.MULTILINE | re.DOTALL)
    if prices is None or subnets is None:
        raise ValueError(f"`trainway plan` printed no table of subnets or no table of prices:\n{printed}")
    return draw("trainway plan platform.yaml", [*subnets[0].splitlines(), "…", *prices[0].splitlines()])


def draw(command: str, lines: list[str]) -> str:
    """Return an SVG picture of a terminal with a command and the lines that it printed."""
    width = max(map(len, [*lines, command])) * FONT * 0.6 + 2 * MARGIN
    height = (len(lines) + 1) * LINE + 2 * MARGIN
    rows = [f'<text x="{MARGIN}" y="{MARGIN + FONT}" fill="#8bd49c">$ {escape(command)}</text>']
    for row, line in enumerate(lines, start=1):
        rows.append(f'<text x="{MARGIN}" y="{MARGIN + FONT + row * LINE}" fill="{_color(line)}">{_text(line)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
            f' font-family="Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{FONT}">',
            '<rect width="100%" height="100%" rx="8" fill="#1b1f2a"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


def _color(line: str) -> str:
    """Return the color of a line: problems, fixes, and the headings of tables stand out."""
    if re.match(r"\S+:\d+:\d+: |\d+ problems? found", line):
        return "#ff9d8a"
    if line.lstrip().startswith("fix: "):
        return "#8bd49c"
    return "#8fb8ff" if re.match(r"(subnet|price) ", line) else "#d8dee9"


def _text(line: str) -> str:
    """Return a line for SVG, which would join the spaces between the columns of a table."""
    return escape(line).replace(" ", "\u00a0")


def _run(*arguments: str, directory: Path) -> str:
    ran = subprocess.run([TRAINWAY, *arguments], cwd=directory, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def take_report(picture: Path) -> None:
    """Write the picture of the report of `make run`."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([TRAINWAY, "demo", "--platform", ROOT / "platform.yaml"], cwd=directory, check=True)
        (report,) = Path(directory).rglob("report.html")
        take = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={REPORT_SIZE}"]
        subprocess.run([*take, f"--screenshot={picture}", report.as_uri()], check=True, capture_output=True)


def main() -> None:
    """Write the pictures."""
    os.environ["COLUMNS"] = str(COLUMNS)
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "check.svg").write_text(screen_of_check(), encoding="utf-8")
    (PICTURES / "plan.svg").write_text(screen_of_plan(), encoding="utf-8")
    if shutil.which("chromium"):
        take_report(PICTURES / "report.png")
    else:
        print("docs/pictures/report.png stays as it is, because Chromium is not installed.")


if __name__ == "__main__":
    main()
