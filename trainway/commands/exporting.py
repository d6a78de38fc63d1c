"""`trainway alarms`, `dashboard`, `manifests`, and `app`: what other programs read of a platform, or run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM


def alarms(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
) -> None:
    """Print the platform's alarms as a rule file, for a Prometheus of yours that scrapes the nodes and the runs."""
    import yaml

    from trainway.monitoring.rules import rule_document
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    document = rule_document(load_platform(file), load_catalogue())
    print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000), end="")


def dashboard(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
) -> None:
    """Print the platform's dashboard as JSON, to import into a Grafana of yours that reads the metrics."""
    from trainway.monitoring.grafana import grafana_dashboard
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    print(json.dumps(grafana_dashboard(load_platform(file), load_catalogue()), indent=2))


def manifests(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    out: Annotated[
        Path,
        typer.Option(
            help="Directory of the files. The command creates it, and deletes files that it wrote there before."
        ),
    ] = Path("manifests"),
    deployed: Annotated[
        bool,
        typer.Option(
            "--deployed", help="Fill in values of the deployed platform, such as IDs. Default: leave placeholders."
        ),
    ] = False,
) -> None:
    """Write the Kubernetes objects and chart values that the deploy applies."""
    from trainway.launch.platform.hand_off import read_hand_off
    from trainway.manifests.export import export_manifests
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    platform = load_platform(file)
    hand_off = read_hand_off(platform) if deployed else None
    written, open_names = export_manifests(platform, load_catalogue(), out, hand_off)
    print(f"{len(written)} files in {out}")
    if open_names:
        print(f"placeholders, which --deployed fills in: {', '.join(open_names)}", file=sys.stderr)


def app_command() -> None:
    """Print the command of the CDK app, for `cdk --app "$(trainway app)" --context platform=platform.yaml synth`."""
    from trainway.parts.checkout import cdk_app
    from trainway.parts.extras import require_extras

    require_extras("the CDK app", "platform")
    print(cdk_app())
