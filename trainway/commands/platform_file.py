"""The platform file as an argument or an option of a command, and its default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_PLATFORM = Path("platform.yaml")
PlatformArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A platform file.")]
PlatformFile = Annotated[Path, typer.Option("--platform", help="Path of the platform file.")]
DeployedPlatformFile = Annotated[
    Path,
    typer.Option(
        "--platform",
        help="Path of the platform file, or name of a platform of `trainway connect`. If the default file does not "
        "exist, the command uses the only platform of `trainway connect`.",
    ),
]
