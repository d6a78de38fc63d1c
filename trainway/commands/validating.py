"""`trainway check`, `rules`, and `schema`: what may be in a platform file and in a job file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM
from trainway.commands.printing import show
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.spec.platform import Platform


def check(
    file: Annotated[Path, typer.Argument(help="A platform file or a job file.")] = DEFAULT_PLATFORM,
    on: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="Day for which the file must be valid, for example 2027-04-01: its Kubernetes version must have "
            "standard support then. Default: today, in UTC.",
        ),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Rule about what AWS sells that need not hold, by its name in `trainway rules`. Repeat it for further "
            "rules. For a deploy, write it into the file, as `accept`.",
        ),
    ] = None,
    platform_file: Annotated[
        Path | None,
        typer.Option(
            "--platform",
            help="Platform file against which a job file is checked, as a launch on its cluster does, without the "
            "account. Or name of a platform of `trainway connect`. Default: a job file is checked alone.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the problems as JSON. The exit status is 2 if there are any.")
    ] = False,
) -> None:
    """Validate a platform file or a job file, and print every problem.

    With --platform, a job file is also checked against a platform, which need not be deployed.
    """
    from trainway.spec.problems import SpecError

    try:
        what, notes = _checked(file, (on or datetime.now(UTC)).date(), _published(accept or []), platform_file)
    except SpecError as error:
        if not as_json:
            raise
        print(json.dumps({"file": str(file), "problems": [each.as_json() for each in error.problems]}, indent=2))
        raise typer.Exit(2) from None
    if as_json:
        said = {
            name: [each.removeprefix(f"{prefix}: ") for each in notes if each.startswith(f"{prefix}: ")]
            for name, prefix in (("not_verified", "not verified"), ("warnings", "warning"), ("notes", "note"))
        }
        print(json.dumps({"file": str(file), "problems": [], **said}, indent=2))
        return
    show(f"{file}: {what}: no problems.")
    for note in notes:
        show(note)


def _checked(file: Path, today: date, accept: list[str], platform_file: Path | None) -> tuple[str, list[str]]:
    """Return what a file describes, with warnings and what cannot be verified. Raises SpecError with every problem."""
    from trainway.spec.deployment.published_lists import unlisted
    from trainway.spec.document import read_document
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.image.image_notes import unverified
    from trainway.spec.loader import load_platform

    if {"run", "model"} & read_document(file).data.keys():
        from trainway.launch.registry.platform_file import platform_file_named
        from trainway.launch.starting.prepare import check_job

        there = None if platform_file is None else platform_file_named(platform_file)
        platform = None if there is None else load_platform(there, today=today, accept=accept)
        what, warnings = check_job(file, platform)
        notes = [f"warning: {each}" for each in warnings]
        if there is None or platform is None:
            return what, notes
        return _checked_on(there, platform, file, what, notes)
    if platform_file is not None:
        why = f"{file} is a platform file, and is checked alone"
        raise usage_error("--platform cannot be used with a platform file", why=why, fix="leave --platform out")
    platform = load_platform(file, today=today, accept=accept)
    nodes = ", ".join(f"{group.largest} × {' or '.join(group.instance_types)}" for group in platform.node_groups)
    what = f"{platform.name} in {platform.region} on {platform.orchestrator.value}, up to {nodes}"
    unknown = [*unverified(platform, load_catalogue()), *unlisted(platform)]
    return what, [f"not verified: {each}" for each in unknown]


def _checked_on(
    platform_file: Path, platform: Platform, job_file: Path, what: str, notes: list[str]
) -> tuple[str, list[str]]:
    """Return what `_checked` does for a job on a platform. `what` and `notes` are those of the job alone."""
    from trainway.launch.starting.check_on_platform import check_on_platform

    printed = check_on_platform(job_file, platform_file, platform)
    said = [each if each.startswith("warning: ") else f"note: {each}" for each in printed]
    where = f"note: {platform.name} is as {platform_file} describes it. The deployed platform was not read"
    return f"{what}, on {platform.name}", list(dict.fromkeys([where, *notes, *said]))


def _published(names: list[str]) -> list[str]:
    """Return the names of rules. Raises UsageError for one that cannot be accepted."""
    from trainway.spec.rule import PUBLISHED_RULES

    for name in names:
        if name not in PUBLISHED_RULES:
            why = f"{name} is not among the rules about what AWS sells"
            raise usage_error("--accept", why=why, fix=f"name one of {', '.join(sorted(PUBLISHED_RULES))}")
    return names


def rules(
    as_json: Annotated[bool, typer.Option("--json", help="Print the rules as JSON.")] = False,
) -> None:
    """List the rules of a platform file. A file can accept those that rest on what AWS had published on some day."""
    from trainway.spec.rule import PUBLISHED_RULES, name_of, summary_of
    from trainway.spec.rules import RULES

    listed = [
        {"name": name_of(each), "published": name_of(each) in PUBLISHED_RULES, "what": summary_of(each)}
        for each in sorted(RULES, key=name_of)
    ]
    if as_json:
        print(json.dumps(listed, indent=2))
        return
    for each in listed:
        show(f"{each['name']}{' (published)' if each['published'] else ''}\n    {each['what']}")


def schema(
    of: Annotated[
        Literal["platform", "job"], typer.Argument(help="The file whose schema is printed.", show_default=True)
    ] = "platform",
) -> None:
    """Print the JSON Schema of the platform file or of the job file, by which editors complete and check the file."""
    if of == "job":
        from trainway.launch.job_file.programs import job_schema

        print(json.dumps(job_schema(), indent=2))
        return
    from trainway.spec.platform import Platform

    print(json.dumps(Platform.model_json_schema(), indent=2))
