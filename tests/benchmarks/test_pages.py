"""The pages with figures of builds have those of the committed results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

CHANGES_OF_THE_IMAGE = {
    "Another line in `training/`": "line",
    "Another Python package": "package",
    "Everything, without a cache": "nothing",
}
CHANGES_OF_ADDITIONS = {
    "The first Python package": "first package",
    "Another Python package": "another package",
    "A package of the distribution": "package of the distribution",
    "The first Dockerfile": "first Dockerfile",
    "Another line below the Dockerfile": "another line below the Dockerfile",
    "Another line in `training/`": "another line of the job",
}


def rows(page: str, first_header: str) -> list[list[str]]:
    """Return the cells of the table on a page whose first column has this header, without its head."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith(f"| {first_header} |")]
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" |")])
    return found


def figures(benchmark: str) -> tuple[dict[str, Any], str]:
    """Return the figures of a committed result, and its day."""
    result = json.loads((ROOT / f"benchmarks/results/{benchmark}.json").read_text(encoding="utf-8"))
    return result["figures"], result["date"][:10]


def seconds(value: float) -> str:
    return f"{value:,.0f} s" if round(value) else "none"


def table(builds: dict[str, Any], changes: dict[str, str], before: str) -> list[list[str]]:
    """Return the rows that a page has of builds, whose first seconds are those of the stage `before`."""
    return [
        [
            name,
            seconds(builds[build][f"{before}_seconds"]),
            seconds(builds[build]["image_seconds"]),
            f"{builds[build]['bytes'] / 1e6:,.{0 if builds[build]['bytes'] > 1e7 else 1}f} MB",
        ]
        for name, build in changes.items()
    ]


def test_the_page_of_the_image_has_the_figures_of_its_builds() -> None:
    builds, day = figures("image_layers")
    assert rows("image.md", "Change") == table(builds, CHANGES_OF_THE_IMAGE, "base")
    assert f"`benchmarks/image_layers.py` measured them on {day}" in (ROOT / "docs/image.md").read_text("utf-8")


def test_the_page_of_the_image_has_the_sizes_of_its_layers() -> None:
    builds, _ = figures("image_layers")
    large = [f"{size / 1e6:.0f}" for size in builds["nothing"]["layers"] if size > 1e7]
    assert [size for _, size in rows("image.md", "Layer")] == large


def test_the_page_of_your_image_has_the_figures_of_its_builds() -> None:
    builds, day = figures("user_images")
    assert rows("your-image.md", "Change") == table(builds, CHANGES_OF_ADDITIONS, "additions")
    page = re.sub(r"\s+", " ", (ROOT / "docs/your-image.md").read_text("utf-8"))
    assert f"measured these figures on {day}" in page
    assert f"The base had {builds['base_bytes'] / 1e6:,.0f} MB." in page


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def test_the_page_on_goodput_has_the_figures_of_the_committed_result() -> None:
    found, day = figures("goodput")
    of_llama, *others = found["curve"].values()
    assert rows("watching.md", "GPUs") == [
        [
            f"{int(gpus):,}",
            f"{each['hours_between_interruptions']:,.4g}",
            f"{each['steps_between_checkpoints']:,}",
            percent(each["goodput"]["median"]),
            f"{percent(each['goodput']['lower'])} to {percent(each['goodput']['upper'])}",
            *(percent(other[gpus]["goodput"]["median"]) for other in others),
        ]
        for gpus, each in of_llama.items()
    ]
    limits = found["limits_on_8192_gpus"]
    names = ("stall", "write", "detection", "restart", "startup", "load")
    costs = [f"{name}_seconds" for name in names]
    assert [row[1:] for row in rows("watching.md", "Cost")] == [
        [f"{found['costs'][cost]:.4g}", percent(limits[cost]["halved"]), percent(limits[cost]["ten times"])]
        for cost in costs
    ]
    page = re.sub(r"\s+", " ", (ROOT / "docs/watching.md").read_text("utf-8"))
    run, shares = found["validation"], of_llama["8192"]["shares"]
    assert f"measured by the same command on {day}" in page
    assert f"had {run['interruptions']} interruptions in {run['seconds']:.0f} seconds" in page
    assert f"a goodput of {percent(run['measured']['productive'])}" in page
    for costs_of in ("its own costs", "costs of the run before"):
        off = f"{100 * run[f'simulated, {costs_of}']['relative_difference']:.1f} %".replace("-", "−")
        assert f"off by {off}" in page
    lost, simulated = run["measured"]["lost"], run["simulated, its own costs"]["lost"]
    assert f"has {percent(simulated)} of lost steps, and the run had {percent(lost)}." in page
    for use in ("data", "restart", "lost", "checkpoint"):
        assert f"{percent(shares[use])} " in page


def test_the_page_on_recovery_has_the_figures_of_the_committed_result() -> None:
    found, day = figures("recovery")
    assert rows("recovery.md", "After") == [
        [
            after,
            *(
                f"{each['median']:.1f} s ({each['lower']:.1f} to {each['upper']:.1f})"
                for each in found[fault]["seconds"].values()
            ),
            *(f"{seconds_of_part:.1f} s" for seconds_of_part in found[fault]["parts"].values()),
        ]
        for after, fault in (
            ("a killed rank", "kill"),
            ("a rank that hangs", "hang"),
            ("a lost host, with a spare one", "lost_host"),
        )
    ]
    page = re.sub(r"\s+", " ", (ROOT / "docs/recovery.md").read_text("utf-8"))
    assert f"`python -m benchmarks.recovery` measured on {day}" in page
    assert f"with {found['ranks']} ranks" in page
    assert f"A step may take {found['hang_seconds']} seconds" in page


def test_the_page_about_slow_ranks_has_the_counts_of_the_result() -> None:
    found, day = figures("stragglers")
    page = " ".join((ROOT / "docs/watching.md").read_text(encoding="utf-8").split())
    runs, named = found["runs_of_each_kind"], found["slow_runs_whose_slow_rank_alone_was_named"]
    assert f"`python -m benchmarks.stragglers` measured on {day} with {found['ranks']} ranks" in page
    assert f"In {named} of {runs} runs of {found['steps']} steps, the rank that computed 15 % longer was named." in page
    assert (
        f"In {runs} runs without such a rank, {found['sound_runs_with_a_named_rank']} had a rank that was named."
        in page
    )
    reports = [float(ratio) for run in found["sound"] for ratio in run["ratios"].split()]
    above = sum(max(ratio, 1 / ratio) > 1.1 for ratio in reports)
    assert f"Of {len(reports)} single reports of these runs, {above} differed by more than 10 %." in page


def test_the_page_of_checkpoints_has_the_figures_of_uploads() -> None:
    measured, day = figures("node_uploads")
    ways = ("a process for each rank", "one process, all at once", "one process, one by one")

    def row(way: str) -> list[str]:
        found = measured[way]
        spent = found["processor_seconds_of_gib"]
        spread = f"{spent['median']:.1f} ({spent['lower']:.1f} to {spent['upper']:.1f})"
        return [way, f"{found['requests']['median']:.0f}", spread, f"{found['memory_mib']['median']:.0f} MiB"]

    assert rows("checkpoints.md", "8 ranks, 64 MiB each") == [row(way) for way in ways]
    page = (ROOT / "docs/checkpoints.md").read_text("utf-8")
    assert f"`python -m benchmarks.node_uploads` measured them on {day}" in page
    copy = [measured[way]["copy_processor_seconds_of_gib"]["median"] for way in ways[1:]]
    saved = (
        measured[ways[0]]["processor_seconds_of_gib"]["median"]
        - measured[ways[2]]["processor_seconds_of_gib"]["median"]
    )
    assert {f"{each:.1f}" for each in copy} == {"0.6"} and f"saves {saved:.1f} processor seconds" in page
