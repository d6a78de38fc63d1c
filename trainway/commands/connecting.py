"""`trainway connect` and `trainway runs`: platforms that others deployed, and the records of their runs."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from trainway.commands.progress import working

runs_app = typer.Typer(help="Manage the records of runs on your platforms.", no_args_is_help=True)


def connect(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="Name of a deployed platform.")],
    region: Annotated[
        str | None,
        typer.Option(metavar="REGION", help="AWS Region of the platform. Default: that of your AWS configuration."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Your login name on the nodes of a platform with Slurm, for a machine without sbatch. It is kept. "
            "Default: the one that you have said before, or else ubuntu.",
        ),
    ] = None,
) -> None:
    """Connect to a deployed platform, so that you can launch jobs on it, and list, follow, and stop its runs."""
    from trainway.launch.registry import connections
    from trainway.launch.registry.logins import remember_login
    from trainway.launch.runs.names import check_login_name
    from trainway.launch.target.known import target_of
    from trainway.spec.sections.orchestrator import Orchestrator

    where = region or _configured_region()
    with working(f"reading {platform} from AWS"):
        hand_off = connections.connect(platform, where)
    if user is not None:
        remember_login(hand_off.cluster.arn, check_login_name(user))
    teams = ", ".join(hand_off.teams) or "none"
    print(f"connected to {platform} in {hand_off.region}: {hand_off.orchestrator}, teams: {teams}")
    target = target_of(Orchestrator(hand_off.orchestrator)).name
    print(f"`trainway launch train.py --target {target} --platform {platform}` runs a program on it")
    print("`trainway status --all` shows its runs")


def _configured_region() -> str:
    import boto3

    from trainway.spec.errors import usage_error

    region = boto3.session.Session().region_name
    if region is None:
        fix = "name it with --region, or set AWS_REGION"
        raise usage_error("--region", why="it was not given, and AWS is configured without one", fix=fix)
    return str(region)


@runs_app.command()
def prune(
    days: Annotated[int, typer.Option(min=0, metavar="N", help="Runs that were launched N days ago or earlier.")] = 90,
    team: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only runs of this team.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the records, instead of listing them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each record as a JSON object in a line.")] = False,
) -> None:
    """List or delete the records of runs that have ended. Their outputs and checkpoints are kept."""
    from trainway.launch.registry.find import reachable_registries
    from trainway.launch.registry.state import OLD_SECONDS
    from trainway.launch.runs.status import how_it_ended
    from trainway.launch.target.known import target_named
    from trainway.launch.target.protocol import Phase

    before, found = datetime.now(UTC) - timedelta(days=days), 0
    for registry in reachable_registries():
        for record in registry.records(team or ()):
            if record.launch is None or datetime.fromisoformat(record.started) > before:
                continue
            state = registry.state(record.team, record.run)
            phase = target_named(record.launch["target"]).state(record.launch["handle"]).phase
            ended = how_it_ended(phase, asdict(state) if state else None)
            # A target can hide a run, which then still writes its state.
            hidden = ended is Phase.GONE and state is not None and time.time() - state.written < OLD_SECONDS
            if ended is None or hidden:
                continue
            found += 1
            if yes:
                registry.release(record)
            known = {"run": record.run, "team": record.team, "owner": record.owner, "phase": ended.value}
            known["started"] = record.started
            print(json.dumps(known) if as_json else "  ".join(str(each or "-") for each in known.values()))
    said = "records deleted" if yes else "records would be deleted; --yes deletes them"
    print(f"{found} {said}, and no outputs or checkpoints", file=sys.stderr)
