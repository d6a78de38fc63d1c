"""`trainway plan`: what a platform will have, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM
from trainway.commands.printing import AsJson, show


def plan(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    live: Annotated[
        bool,
        typer.Option(
            "--live-prices",
            help="Ask AWS for the prices of today, by the credentials of this shell. Default: the prices that Trainway "
            "has, each with its day.",
        ),
    ] = False,
    cheaper: Annotated[
        bool,
        typer.Option(
            "--cheaper",
            help="Show only the changes that make the nodes cheaper and that the same jobs fit: another capacity, "
            "instance type, or Region.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a platform will have and cost: subnets and their IP addresses, nodes, quotas, and prices."""
    from trainway.plan import plan_document, plan_text
    from trainway.price.document import prices_for, prices_of
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    platform, catalogue = load_platform(file), load_catalogue()
    if cheaper:
        from trainway.extensions import cheaper as changes

        found = changes.candidates(platform, catalogue)
        items = [item for each in (platform, *(it.platform for it in found)) for item, _ in changes.items_of(each)]
        compared = changes.compare(platform, found, prices_for(items, live=live))
        print(json.dumps(changes.as_document(compared), indent=2) if as_json else changes.as_text(compared))
        return
    document = plan_document(platform, catalogue, prices_of(platform, catalogue, live=live))
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        show(plan_text(document))
