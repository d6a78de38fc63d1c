"""Measure loading the catalogue, planning addresses, and synthesizing many node groups.

    python -m benchmarks.planning

Each figure is in processor seconds, including those of the Node process of a synthesis. A platform with few node groups
and one with many take turns (see turns.py).
"""

import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from stacks.platform import add_stacks
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.platform import Platform

ROOT = Path(__file__).parents[1]
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
INSTANCE_TYPES = ("p5.48xlarge", "p4d.24xlarge", "trn1.32xlarge", "g6e.48xlarge", "g5.8xlarge", "m7i.8xlarge")
FEW, MANY, NODES = 2, 20, 1000
REPETITIONS, SYNTHESES = 21, 6


def main() -> None:
    """Measure, and write the result."""
    chosen = arguments("planning", __doc__).parse_args()
    # The CDK's validator takes most of a synthesis, and `cdk deploy` runs it once.
    os.environ["CDK_VALIDATION"] = "false"
    large = platform("eks", ["p5.48xlarge"], NODES)
    catalogue = load_catalogue()
    figures = {
        "catalogue_seconds": repeated(load_catalogue.__wrapped__),
        "plan_of_1000_nodes_seconds": repeated(lambda: plan_addresses(large, catalogue)),
        "synthesis": {name: synthesis(name) for name in ORCHESTRATORS},
    }
    record(figures, ["aws-cdk-lib", "pydantic", "pyyaml"], chosen.out)


def synthesis(orchestrator: str) -> dict[str, Any]:
    """Measure the syntheses of a platform with few node groups and of one with many, and the ratio of the second."""
    types = list(itertools.islice(itertools.cycle(INSTANCE_TYPES), MANY))
    few, many = platform(orchestrator, types[:FEW], 32), platform(orchestrator, types, 32)
    synthesize(few)  # the first synthesis of a process loads modules
    turns = take_turns(
        {
            str(FEW): lambda: processor_seconds(lambda: synthesize(few)),
            str(MANY): lambda: processor_seconds(lambda: synthesize(many)),
        },
        SYNTHESES,
    )
    return {
        "seconds": {name: Spread.of(each).document() for name, each in turns.items()},
        "many_over_few": ratios(turns[str(MANY)], turns[str(FEW)]).document(),
    }


def platform(orchestrator: str, types: list[str], largest: int) -> Platform:
    """Return a platform with a node group of each of these instance types."""
    groups = [
        {"name": f"group-{number}", "instance_type": kind, "count": 1, "max_count": largest}
        for number, kind in enumerate(types)
    ]
    zones = ["usw2-az2", "usw2-az1"]
    keys = {"name": "many", "region": "us-west-2", "zones": zones, "orchestrator": orchestrator, "node_groups": groups}
    return Platform.model_validate(keys)


def synthesize(given: Platform) -> None:
    """Synthesize the platform's stacks into a directory that is deleted."""
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    with tempfile.TemporaryDirectory() as out:
        app = cdk.App(outdir=out, context=context)
        add_stacks(app, given)
        app.synth()


def repeated(act: Callable[[], object]) -> dict[str, Any]:
    """Return the spread of a function's processor seconds."""
    return Spread.of([processor_seconds(act) for _ in range(REPETITIONS)]).document()


def processor_seconds(act: Callable[[], object]) -> float:
    """Run a function, and return the processor seconds of this process and its children."""
    began = time.process_time() + of_children()
    act()
    return time.process_time() + of_children() - began


def of_children() -> float:
    """Return the CPU seconds of this process's running child processes."""
    waiting, ticks = [os.getpid()], 0
    while waiting:
        pid = waiting.pop()
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for child in children:
            # The fields after the name, which may have spaces: user and system time are the twelfth and thirteenth.
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        waiting += children
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
