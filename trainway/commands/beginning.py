"""`trainway init`: the first platform file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from trainway.commands.launching import DEFAULT_PLATFORM
from trainway.spec.errors import usage_error

Value = TypeVar("Value", str, int)


def init(
    file: Annotated[Path, typer.Argument(help="File to write. One that exists is not overwritten.")] = DEFAULT_PLATFORM,
    instance_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Instance type of the nodes, for example p5.48xlarge.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of nodes.")] = None,
    orchestrator: Annotated[
        Literal["eks", "hyperpod-eks", "hyperpod-slurm"] | None,
        typer.Option(help="eks and hyperpod-eks run Kubernetes, hyperpod-slurm runs Slurm."),
    ] = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="AWS Region, for example us-west-2.")] = None,
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="How the nodes are bought: on-demand, spot, reservation:cr-…, capacity-block:cr-…, or the ARN of a "
            "training plan.",
        ),
    ] = None,
    admin: Annotated[
        str | None, typer.Option(metavar="ARN", help="IAM role that administers the Kubernetes cluster.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the platform.")] = None,
    no_file_system: Annotated[
        bool,
        typer.Option(
            "--no-file-system",
            help="With eks: keep everything in S3, in any Region that has the instance type. Default: create an FSx "
            "for Lustre file system.",
        ),
    ] = False,
) -> None:
    """Write a first platform file, from options or from answers to a few questions.

    trainway init --type p5.48xlarge --count 4 --orchestrator eks --region us-west-2 --capacity on-demand
    --admin arn:aws:iam::111122223333:role/Admin --name atlas
    """
    from trainway import new_platform
    from trainway.spec.sections.orchestrator import Orchestrator

    if file.exists():
        raise usage_error(str(file), why="the file exists, and is not overwritten", fix="name another one, or move it")
    type_asked = _answer("--type", instance_type, "Instance type of the nodes (`trainway instances` lists them)", str)
    new_platform.check_type(type_asked)
    kinds = [each.value for each in Orchestrator]
    word = _answer("--orchestrator", orchestrator, f"Orchestrator ({', '.join(kinds)})", str)
    if word not in kinds:
        raise usage_error(f"orchestrator {word}", why="there is no such orchestrator", fix=f"use {', '.join(kinds)}")
    kind = Orchestrator(word)
    regions = new_platform.regions_for(type_asked, kind, file_system=not no_file_system)
    where = _answer("--region", region, f"Region ({', '.join(regions) or 'no Region is known to have all of it'})", str)
    ways = new_platform.capacities_for(type_asked, kind)
    bought = _answer("--capacity", capacity, f"How the nodes are bought ({', '.join(map(_shown, ways))})", str)
    wishes = new_platform.Wishes(
        name=_answer("--name", name, "Name of the platform", str),
        instance_type=type_asked,
        count=_answer("--count", count, "Number of nodes", int),
        orchestrator=kind,
        region=where,
        capacity=bought,
        admin=_answer("--admin", admin, "ARN of the IAM role that administers the cluster", str)
        if kind.is_kubernetes
        else None,
        file_system=not no_file_system,
    )
    text = new_platform.platform_text(wishes)
    # `x`: another process may have written it meanwhile.
    with file.open("x", encoding="utf-8") as written:
        written.write(text)
    print(f"{file} is written, and has no problems. Next: `trainway plan {file}` shows what it becomes.")


def _shown(way: str) -> str:
    return {"reservation": "reservation:cr-…", "capacity-block": "capacity-block:cr-…"}.get(
        way, "the ARN of a training plan" if way == "training-plan" else way
    )


def _answer(option: str, given: Value | None, question: str, convert: type[Value]) -> Value:
    """Return what an option was given, or what a person answers to a question.

    Raises UsageError if nobody can be asked.
    """
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise usage_error(option, why="it was not given, and there is no terminal to ask at", fix=f"give {option}")
    answered: Value = typer.prompt(question, type=convert)
    return answered
