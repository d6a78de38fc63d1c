"""The options of `trainway verify`: the nodes, the test, and the repairs after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, DeployedPlatformFile
from trainway.commands.printing import AsJson


@dataclass(frozen=True)
class RepairOptions:
    """Options of the repair of nodes at fault."""

    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="HyperPod only: after the test, check, reboot, or replace the nodes at fault. Asks for a "
            "confirmation. Default: test only.",
        ),
    ] = False
    repair_with: Annotated[
        Literal["check", "reboot", "replace"] | None,
        typer.Option(
            help="With --repair: repair each node at fault in this way. Default: as the failed check requires."
        ),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="With --repair: repair without a confirmation.")] = False


@dataclass(frozen=True)
class VerifyOptions:
    """Options of a test of nodes, or of the logs of a run in place of a test."""

    nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of nodes to test at once.")] = 2
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read the logs of this run instead of starting a test.")
    ] = None
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Team whose quota the test uses.")] = None
    gib: Annotated[
        int, typer.Option(min=1, max=64, metavar="GIB", help="Size of the largest all-reduce in GiB, 1 to 64.")
    ] = 8
    dcgm_level: Annotated[
        int,
        typer.Option(
            min=1, max=4, metavar="LEVEL", help="Level of the dcgmi diagnostics, 1 to 4. Level 1 takes seconds."
        ),
    ] = 1
    find_slow: Annotated[
        bool,
        typer.Option(
            "--find-slow",
            help="Measure each node and pairs of nodes, and print the nodes and links with rates below 75 % of the "
            "median of the others. Use 3 nodes or more: in a single pair, the slow node cannot be identified. "
            "Default: test all nodes together.",
        ),
    ] = False
    environment: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Slurm only: run in this virtual environment instead of the training image."),
    ] = None
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Slurm only: your login name on the cluster. Default: ubuntu.")
    ] = None
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Test this image of the platform file's `images`. Default: that of the node group."
        ),
    ] = None
    repairs: RepairOptions = RepairOptions()
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print what would be submitted, and submit nothing. With --repair: test the nodes, and print the "
            "requests to SageMaker without sending them.",
        ),
    ] = False
    as_json: AsJson = False
