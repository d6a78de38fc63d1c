"""`python -m benchmarks.claims` rewrites the table of README.md from the result files, which have its numbers."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    figure: Callable[[dict[str, Any]], float | None]
    """Return the deciding figure of a result, or None if that machine could not measure it."""
    form: str = ".2f"


def _over_bf16(figures: dict[str, Any]) -> float | None:
    rates = {name: cell["trainway"]["tokens_per_second"] for name, cell in figures["cells"].items()}
    float8 = [rate for name, rate in rates.items() if name.startswith("float8") and rate]
    return max(float8) / rates["bf16, compile"] if float8 and rates.get("bf16, compile") else None


CLAIMS = (
    Claim(
        "Shuffled tokens are read nearly as fast as from a raw memory map, times its rate",
        "read_rate",
        True,
        0.5,
        lambda figures: min(each["ours_over"]["memory map"] for each in figures["samples_of_a_batch"].values()),
    ),
    Claim(
        "They are read many times as fast as by WebDataset, times its rate",
        "read_rate",
        True,
        10,
        lambda figures: min(each["ours_over"]["webdataset"] for each in figures["samples_of_a_batch"].values()),
        ".0f",
    ),
    Claim(
        "The first batch comes as soon at 99 % of an epoch as at 1 %, times as long",
        "resume",
        False,
        1.1,
        lambda figures: float(figures["99%_over_1%"]["trainway"]),
    ),
    Claim(
        "The loop costs a step little more than a bare one of the same model",
        "overhead",
        False,
        0.02,
        lambda figures: float(figures["overhead_over"]["bare"]),
        ".1%",
    ),
    Claim(
        "Training stands still for an asynchronous checkpoint for a small part of a synchronous one",
        "checkpoint_stall",
        False,
        0.05,
        lambda figures: float(figures["asynchronous_over_synchronous"]),
        ".1%",
    ),
    Claim(
        "The catalogue is loaded at once, processor seconds",
        "planning",
        False,
        0.03,
        lambda figures: float(figures["catalogue_seconds"]),
        ".3f",
    ),
    Claim(
        "The subnets of 1,000 nodes are planned at once, processor seconds",
        "planning",
        False,
        0.05,
        lambda figures: float(figures["plan_of_1000_nodes_seconds"]),
        ".3f",
    ),
    Claim(
        "Twenty node groups are synthesized in little more than two, times its processor seconds",
        "planning",
        False,
        2,
        lambda figures: max(each["20"] / each["2"] for each in figures["synthesis_seconds"].values()),
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
        "One GPU: faster than torchtitan 0.3.0, in bf16 with compile, times its tokens a second",
        "single_gpu",
        True,
        1.15,
        lambda figures: figures["cells"]["bf16, compile"]["ours_over_torchtitan"],
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


def table() -> str:
    """Return the claims as a Markdown table."""
    lines = ["| claim | `python -m` | target | measured | met | on |", "|---|---|---|---|---|---|"]
    for claim in CLAIMS:
        target = f"{'≥' if claim.at_least else '≤'} {claim.bound:{claim.form}}"
        file = HERE / "results" / f"{claim.benchmark}.json"
        result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        value = claim.figure(result["figures"]) if result else None
        cells = ["", "", "not measured yet"]
        if result and value is not None:
            met = value >= claim.bound if claim.at_least else value <= claim.bound
            card = result["figures"].get("card") or {"name": f"{result['processor']}, {result['processors']} cores"}
            cells = [f"{value:{claim.form}}", "yes" if met else "no", f"{card['name']}, {result['date'][:10]}"]
        lines.append(f"| {claim.says} | `benchmarks.{claim.benchmark}` | {target} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Replace the text between the markers of README.md."""
    README.write_text(BETWEEN.sub(lambda _: table(), README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
