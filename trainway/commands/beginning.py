"""`trainway init`: the first platform file."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainway.commands.options import takes_options
from trainway.commands.platform_file import DEFAULT_PLATFORM
from trainway.spec.errors import usage_error


@dataclass(frozen=True)
class InitOptions:
    """Options that answer the questions of `trainway init`, each with the name of its question."""

    type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Instance type of the nodes, for example p5.48xlarge.")
    ] = None
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of nodes.")] = None
    orchestrator: Annotated[
        Literal["eks", "hyperpod-eks", "hyperpod-slurm"] | None,
        typer.Option(help="eks and hyperpod-eks run Kubernetes, hyperpod-slurm runs Slurm."),
    ] = None
    region: Annotated[str | None, typer.Option(metavar="REGION", help="AWS Region, for example us-west-2.")] = None
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="How the nodes are bought: on-demand, spot, reservation:cr-…, capacity-block:cr-…, or the ARN of a "
            "training plan.",
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start of a block or plan in UTC. Default: nodes start with the deploy."),
    ] = None
    end: Annotated[str | None, typer.Option(metavar="TIME", help="End of a block or plan in UTC.")] = None
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of the nodes. Default: the first that has them.")
    ] = None
    vpc: Annotated[
        str | None, typer.Option(metavar="ID", help="VPC of yours, which is read from AWS. Default: a new one.")
    ] = None
    route_table: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Route table of new subnets in your VPC. Default: its only private one."),
    ] = None
    range: Annotated[
        str | None,
        typer.Option(
            metavar="CIDR",
            help="CIDR block of the new VPC, or of new subnets in yours. Default: a free one.",
        ),
    ] = None
    team: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=N]", help="Team, and the nodes that it is guaranteed. Repeat it for each team."),
    ] = None
    admin: Annotated[
        str | None, typer.Option(metavar="ARN", help="IAM role that administers the Kubernetes cluster.")
    ] = None
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the platform.")] = None
    no_file_system: Annotated[
        bool,
        typer.Option(
            "--no-file-system",
            help="With eks: keep everything in S3, in any Region that has the instance type. Default: create an FSx "
            "for Lustre file system.",
        ),
    ] = False


@takes_options
def init(
    file: Annotated[Path, typer.Argument(help="File to write. One that exists is not overwritten.")] = DEFAULT_PLATFORM,
    *,
    options: InitOptions,
) -> None:
    """Write a first platform file, from options or from answers to a few questions.

    trainway init --type p5.48xlarge --count 4 --orchestrator eks --region us-west-2 --capacity on-demand
    --admin arn:aws:iam::111122223333:role/Admin --name atlas
    """
    from trainway.new_platform.questions import answered
    from trainway.new_platform.text import platform_text

    if file.exists():
        raise usage_error(str(file), why="the file exists, and is not overwritten", fix="name another one, or move it")
    wishes = answered(_given(options), _ask if sys.stdin.isatty() else None, typer.echo)
    text = platform_text(wishes)
    # `x`: another process may have written it meanwhile.
    with file.open("x", encoding="utf-8") as written:
        written.write(text)
    print(f"{file} is written, and has no problems. Next: `trainway plan {file}` shows what it becomes.")


def _given(options: InitOptions) -> dict[str, str]:
    """Return the options that are given, by the names of their questions, as a person would answer these."""
    given: dict[str, str] = {}
    for name, value in asdict(options).items():
        # An empty text is an answer, which its question refuses.
        if value or value == "":
            text = "yes" if value is True else ",".join(value) if isinstance(value, list) else str(value)
            given[name.replace("_", "-")] = text
    return given


def _ask(question: str, proposed: str | None) -> str:
    return str(typer.prompt(question, default=proposed, type=str))
