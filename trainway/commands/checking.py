"""`trainway preflight` and `doctor`: what AWS and this machine say about a platform. Neither changes anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, PlatformArgument
from trainway.commands.printing import AsJson

if TYPE_CHECKING:
    from trainway.spec.platform import Platform

Skip = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CHECK", help="Leave out a check, by its name in docs/preflight.md. Repeat it for further ones."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 1 also for warnings and for what could not be checked.")
]


def preflight(
    file: PlatformArgument = DEFAULT_PLATFORM,
    skip: Skip = None,
    strict: Strict = False,
    print_policy: Annotated[
        bool,
        typer.Option(
            "--print-policy",
            help="Print the IAM policies that suffice for CloudFormation's role, as a JSON list, and check nothing.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask the AWS account of this shell for all that would make a deploy fail. AWS is only read.

    The exit status is 0 without errors, 1 with one error or more, and 2 if the command itself cannot run.
    """
    from trainway.preflight.account import preflight
    from trainway.preflight.report import as_document, as_text, exit_status
    from trainway.spec.document import read_document
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    platform = load_platform(file)
    if print_policy:
        print(json.dumps(_policies(platform), indent=2))
        return
    findings, where = preflight(platform, load_catalogue(), skip=skip or ())
    document = read_document(file)
    if as_json:
        print(json.dumps(as_document(findings, document, strict=strict), indent=2))
    else:
        print(as_text(findings, document, f"{platform.name} in {where}"))
    raise typer.Exit(exit_status(findings, strict=strict))


def doctor(
    file: PlatformArgument = DEFAULT_PLATFORM, skip: Skip = None, strict: Strict = False, as_json: AsJson = False
) -> None:
    """Ask a deployed platform and this machine whether all is well: stacks, cluster, nodes, storage, image, and tools.

    Nothing is changed. The exit status is that of `trainway preflight`.
    """
    from trainway.doctor.platform import doctor
    from trainway.preflight.report import as_document, as_text, exit_status
    from trainway.spec.document import read_document
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    platform = load_platform(file)
    findings, where = doctor(platform, load_catalogue(), skip=skip or ())
    document = read_document(file)
    if as_json:
        print(json.dumps(as_document(findings, document, strict=strict), indent=2))
    else:
        print(as_text(findings, document, f"{platform.name} in {where}"))
    raise typer.Exit(exit_status(findings, strict=strict))


def _policies(platform: Platform) -> list[dict[str, Any]]:
    """Return the policies, with the account of this shell, or for any account without credentials."""
    from trainway.preflight.aws import AwsQuestions, NotAnswered
    from trainway.preflight.deployer import policies

    try:
        aws = AwsQuestions(platform.region)
    except NotAnswered:
        return policies(platform, "*", "*")
    return policies(platform, aws.partition, aws.number)
