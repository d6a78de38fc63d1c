"""The claims about speed, and what the result files say of each.

`python -m benchmarks.claims` rewrites the table of README.md from the result files, which have its numbers.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.turns import Spread, verdict

HERE = Path(__file__).parent
README = HERE / "README.md"
BETWEEN = re.compile(r"(?<=<!-- claims -->\n).*(?=<!-- /claims -->)", re.DOTALL)


@dataclass(frozen=True)
class Claim:
    """A claim about speed, and the figure that decides whether it holds."""

    says: str
    benchmark: str
    """Name of the module and of its result file."""
    at_least: bool
    bound: float
    figure: Callable[[dict[str, Any]], Spread | float | None]
    """Return the deciding figure of a result, or None if that machine could not measure it.

    A number without a spread was measured once.
    """
    form: str = ".2f"
    control: Callable[[dict[str, Any]], Spread] | None = None
    """Return the ratio of a program to itself in the same turns."""

    @property
    def target(self) -> str:
        """Return the bound in words of the table."""
        return f"{'≥' if self.at_least else '≤'} {self.bound:{self.form}}"


@dataclass(frozen=True)
class Finding:
    """What a result file says of a claim, in words of the table."""

    measured: str
    quartiles: str
    verdict: str
    where: str


UNMEASURED = Finding("", "", "not measured yet", "")


def _median(spread: Spread) -> float:
    return spread.median


def _worst_batch(over: str) -> Callable[[dict[str, Any]], Spread]:
    """Return what reads the spread of the batch size at which the job's reader compares worst."""

    def read(figures: dict[str, Any]) -> Spread:
        each = figures["samples_of_a_batch"].values()
        return min((Spread.read(batch["over_others_by_wall_second"][over]) for batch in each), key=_median)

    return read


def _control_of_worst_batch(figures: dict[str, Any]) -> Spread:
    each = figures["samples_of_a_batch"].values()
    worst = min(each, key=lambda batch: batch["over_others_by_wall_second"]["memory map"]["median"])
    return Spread.read(worst["control_by_wall_second"])


def _over_bf16(figures: dict[str, Any]) -> float | None:
    rates = {name: cell["trainway"]["tokens_per_second"] for name, cell in figures["cells"].items()}
    float8 = [rate for name, rate in rates.items() if name.startswith("float8") and rate]
    return max(float8) / rates["bf16, compile"] if float8 and rates.get("bf16, compile") else None


def _off(costs: str) -> Callable[[dict[str, Any]], float]:
    """Return a function that reads the relative error of the simulated goodput, for a simulation with these costs."""
    return lambda figures: abs(float(figures["validation"][costs]["relative_difference"]))


CLAIMS = (
    Claim(
        "Shuffled tokens are read at two fifths of the rate of a raw memory map or more, times its rate",
        "read_rate",
        True,
        0.4,
        _worst_batch("memory map"),
        control=_control_of_worst_batch,
    ),
    Claim(
        "They are read many times as fast as by WebDataset, times its rate",
        "read_rate",
        True,
        10,
        _worst_batch("webdataset"),
        ".0f",
    ),
    Claim(
        "The first batch costs as much at 99 % of an epoch as at 1 %, times its processor seconds",
        "resume",
        False,
        1.1,
        lambda figures: Spread.read(figures["processor_seconds_over_1%"]["99%"]),
        control=lambda figures: Spread.read(figures["processor_seconds_over_1%"]["1% again"]),
    ),
    Claim(
        "The loop costs a step little more than a bare one of the same model, times its processor seconds",
        "overhead",
        False,
        1.1,
        lambda figures: Spread.read(figures["processor_seconds_over_bare"]["trainway"]),
        control=lambda figures: Spread.read(figures["processor_seconds_over_bare"]["bare again"]),
    ),
    Claim(
        "All metrics of a step, and a scrape in each, cost a small part of it, share of its processor seconds",
        "observing",
        False,
        0.005,
        lambda figures: Spread.read(figures["observation_over_a_step_by_processor"]),
        ".2%",
        control=lambda figures: Spread.read(figures["processor_seconds_over_without"]["without again"]),
    ),
    Claim(
        "Training stands still for an asynchronous checkpoint for a small part of a synchronous one",
        "checkpoint_stall",
        False,
        0.05,
        lambda figures: Spread.read(figures["asynchronous_over_synchronous"]),
        ".1%",
    ),
    Claim(
        "After a rank is killed, the next step ends soon, seconds",
        "recovery",
        False,
        5,
        lambda figures: Spread.read(figures["kill"]["seconds"]["trainway"]),
        ".1f",
    ),
    Claim(
        "After a rank is killed, the next step ends earlier than under torchrun alone, times its seconds",
        "recovery",
        False,
        1,
        lambda figures: Spread.read(figures["kill"]["trainway_over_torchrun"]),
    ),
    Claim(
        "After a rank hangs, the next step ends soon, seconds",
        "recovery",
        False,
        10,
        lambda figures: Spread.read(figures["hang"]["seconds"]["trainway"]),
        ".1f",
    ),
    Claim(
        "After a rank hangs, the next step ends much earlier than under torchrun alone, times its seconds",
        "recovery",
        False,
        0.5,
        lambda figures: Spread.read(figures["hang"]["trainway_over_torchrun"]),
    ),
    Claim(
        "With a spare host, the next step after a lost host ends soon, seconds",
        "recovery",
        False,
        15,
        lambda figures: Spread.read(figures["lost_host"]["seconds"]["trainway"]),
        ".1f",
    ),
    Claim(
        "With a spare host, the next step after a lost host ends earlier than under torchrun alone, times its seconds",
        "recovery",
        False,
        1,
        lambda figures: Spread.read(figures["lost_host"]["trainway_over_torchrun"]),
    ),
    Claim(
        "A rank that computes 15 % longer is named, and no other one, share of the runs",
        "stragglers",
        True,
        1.0,
        lambda figures: figures["slow_runs_whose_slow_rank_alone_was_named"] / figures["runs_of_each_kind"],
        ".0%",
    ),
    Claim(
        "In a run without a slow rank no rank is named, share of the runs with a named one",
        "stragglers",
        False,
        0.0,
        lambda figures: figures["sound_runs_with_a_named_rank"] / figures["runs_of_each_kind"],
        ".0%",
    ),
    Claim(
        "The simulated goodput of a run whose ranks are killed has a small error, with the costs of that run",
        "goodput",
        False,
        0.05,
        _off("simulated, its own costs"),
        ".1%",
    ),
    Claim(
        "The simulated goodput of a run whose ranks are killed has a small error, with the costs of another run",
        "goodput",
        False,
        0.05,
        _off("simulated, costs of the run before"),
        ".1%",
    ),
    Claim(
        "32 ranks agree on whether to stop in less time than an all-reduce takes, times its time",
        "stop_agreement",
        False,
        0.5,
        lambda figures: Spread.read(figures["store_over_all_reduce"]["32"]),
    ),
    Claim(
        "Eight ranks that each upload send no more requests than one process that uploads for them, times its requests",
        "node_uploads",
        False,
        1.0,
        lambda figures: (
            figures["a process for each rank"]["requests"]["median"]
            / figures["one process, all at once"]["requests"]["median"]
        ),
    ),
    Claim(
        "The logs of 64 nodes, 2 GiB, are explained in less than twice the time of reading them from a disk",
        "explaining",
        False,
        2,
        lambda figures: Spread.read(figures["explain_over_read"]),
    ),
    Claim(
        "The catalogue is loaded at once, processor seconds",
        "planning",
        False,
        0.03,
        lambda figures: Spread.read(figures["catalogue_seconds"]),
        ".3f",
    ),
    Claim(
        "The subnets of 1,000 nodes are planned at once, processor seconds",
        "planning",
        False,
        0.05,
        lambda figures: Spread.read(figures["plan_of_1000_nodes_seconds"]),
        ".3f",
    ),
    Claim(
        "Twenty node groups are synthesized in little more than two, times its processor seconds",
        "planning",
        False,
        2,
        lambda figures: max(
            (Spread.read(each["many_over_few"]) for each in figures["synthesis"].values()), key=_median
        ),
    ),
    Claim(
        "The slowest of check, plan, rules, schema, and init takes little, processor seconds",
        "startup",
        False,
        0.4,
        lambda figures: max((Spread.read(each) for each in figures.values()), key=_median),
    ),
    Claim(
        "Another line of the job is built into the image soon, seconds",
        "image_layers",
        False,
        120,
        lambda figures: float(figures["line"]["image_seconds"]),
        ".0f",
    ),
    Claim(
        "A node that has the image fetches little for it, MB",
        "image_layers",
        False,
        10,
        lambda figures: figures["line"]["bytes"] / 1e6,
        ".1f",
    ),
    Claim(
        "On a base with packages and a Dockerfile it is built as soon by a builder that has nothing, seconds",
        "user_images",
        False,
        120,
        lambda figures: float(figures["another line of the job"]["image_seconds"]),
        ".0f",
    ),
    Claim(
        "One GPU: faster than torchtitan, in bf16 with compile, times its tokens a second",
        "single_gpu",
        True,
        1.15,
        lambda figures: figures["cells"]["bf16, compile"]["ours_over_torchtitan"],
    ),
    Claim(
        "One GPU: nearly as fast as a loop written by hand, in bf16 with compile, times its tokens a second",
        "single_gpu",
        True,
        0.95,
        lambda figures: figures["cells"]["bf16, compile"]["ours_over_bare"],
    ),
    Claim(
        "One GPU: share of the published peak in bf16 with compile, attention counted whole",
        "single_gpu",
        True,
        0.55,
        lambda figures: figures["cells"]["bf16, compile"]["trainway"]["mfu"],
        ".1%",
    ),
    Claim(
        "One GPU: float8 over bf16, both with compile, times its tokens a second", "single_gpu", True, 1.3, _over_bf16
    ),
)


def finding(claim: Claim) -> Finding:
    """Return what the claim's result file says, or UNMEASURED."""
    file = HERE / "results" / f"{claim.benchmark}.json"
    if not file.exists():
        return UNMEASURED
    result = json.loads(file.read_text(encoding="utf-8"))
    figures = result["figures"]
    value = claim.figure(figures)
    if value is None:
        return UNMEASURED
    machine = figures.get("card") or {"name": f"{result['processor']}, {result['processors']} cores"}
    where = f"{machine['name']}, {result['date'][:10]}"
    if isinstance(value, Spread):
        decided = verdict(value, claim.bound, claim.at_least, claim.control(figures) if claim.control else None)
        quartiles = f"{value.lower:{claim.form}} to {value.upper:{claim.form}}"
        return Finding(f"{value.median:{claim.form}}", quartiles, decided, where)
    decided = verdict(Spread(value, value, value, 1), claim.bound, claim.at_least)
    return Finding(f"{value:{claim.form}}", "once", decided, where)


def table() -> str:
    """Return the claims as a Markdown table."""
    lines = ["| claim | `python -m` | target | measured | quartiles | verdict | on |", "|---|---|---|---|---|---|---|"]
    for claim in CLAIMS:
        found = finding(claim)
        cells = [claim.says, f"`benchmarks.{claim.benchmark}`", claim.target]
        cells += [found.measured, found.quartiles, found.verdict, found.where]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def summary() -> str:
    """Return a line for each claim: its verdict, what was measured, its target, and what it says."""
    lines = []
    for claim in CLAIMS:
        found = finding(claim)
        measured = f"{found.measured} ({found.quartiles})" if found.measured else ""
        lines.append(f"{found.verdict:<16}  {measured:<24}  {claim.target:<9}  {claim.says}")
    return "\n".join([f"{'verdict':<16}  {'measured (quartiles)':<24}  {'target':<9}  claim", *lines])


def main() -> None:
    """Replace the text between the markers of README.md."""
    README.write_text(BETWEEN.sub(lambda _: table(), README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
