"""`trainway image doctor`: find what would keep an image from EFA and NCCL."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trainway.commands.printing import AsJson, show
from trainway.commands.progress import working


def doctor(
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE|DOCKERFILE",
            help="Dockerfile or its directory, image of a registry, for example ghcr.io/you/train:1, OCI layout, or "
            "archive of `docker save` or `skopeo copy`.",
        ),
    ],
    architecture: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Processors whose image is read, if there is one for several: amd64 or arm64. Default: amd64.",
        ),
    ] = "amd64",
    config_only: Annotated[
        bool,
        typer.Option(
            "--config-only",
            help="Read the variables and the history of an image, and not its layers of several gigabytes. Default: "
            "read the layers, too.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what would keep an image from EFA and NCCL, in anybody's image or Dockerfile. Nothing is run or changed.

    The exit status is 1 if a finding is an error.
    """
    from trainway.image_doctor.diagnosis import diagnose, subject_named

    with working(f"reading {image}"):
        found = diagnose(subject_named(image, architecture=architecture, with_layers=not config_only))
    if as_json:
        print(json.dumps(found.as_json(), indent=2))
    else:
        show(str(found))
    if found.has_errors:
        raise typer.Exit(1)
