"""`trainway capacity`: where nodes are available, when, and for how much."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainway.commands.options import takes_options
from trainway.commands.platform_file import DEFAULT_PLATFORM
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.extensions.capacity.wanted import Wanted
    from trainway.spec.platform import Platform
    from trainway.spec.sections.node_group import NodeGroup


@dataclass(frozen=True)
class CapacityOptions:
    """Options of `trainway capacity`: the nodes to look for, and what to buy or to use."""

    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Node group that needs nodes. Default: the only one with accelerators."),
    ] = None
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of nodes. Default: the group's count.")
    ] = None
    hours: Annotated[
        int, typer.Option(min=1, metavar="H", help="Hours of a Capacity Block or a training plan, in whole days.")
    ] = 168
    start: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"],
            metavar="TIME",
            help="Earliest start in UTC, for example 2026-12-01. Default: now.",
        ),
    ] = None
    end: Annotated[
        datetime | None,
        typer.Option(
            "--until",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"],
            metavar="TIME",
            help="Latest end in UTC. Default: as late as AWS offers.",
        ),
    ] = None
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION", help="Region to look in. Repeat it for more. Default: the platform's."),
    ] = None
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Look in every Region in which EC2 has the instance type.")
    ] = False
    buy: Annotated[
        str | None,
        typer.Option(
            metavar="OFFERING", help="Buy an offering of the list, after a confirmation. It cannot be cancelled."
        ),
    ] = None
    extend: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Buy --hours more for a Capacity Block (cr-…) or a training plan (its ARN), after a confirmation.",
        ),
    ] = None
    use: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show the section `capacity` for a block or plan that the account has."),
    ] = None
    write: Annotated[
        bool,
        typer.Option("--write", help="With --buy or --use: write the section into the platform file. Comments stay."),
    ] = False
    yes: Annotated[bool, typer.Option("--yes", help="Buy without asking.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the offers as JSON.")] = False


@takes_options
def capacity(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM, *, options: CapacityOptions
) -> None:
    """Show where the nodes of a group are available, when, and for how much, and buy them."""
    from trainway.extensions.capacity.offers import find_offers
    from trainway.extensions.capacity.show import as_document, as_text
    from trainway.extensions.capacity.wanted import group_named
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    _check(options)
    platform = load_platform(file)
    group = group_named(platform, options.group, load_catalogue())
    if options.use is not None:
        _use(file, group.name, options.use, platform.region, write=options.write)
        return
    if options.extend is not None:
        _extend(options.extend, platform.region, options.hours, yes=options.yes)
        return
    wanted = _wanted(platform, group, options)
    if options.buy is None:
        found = find_offers(wanted)
        print(json.dumps(as_document(wanted, found), indent=2) if options.as_json else as_text(wanted, found))
        return
    bought = _buy(wanted, options.buy, f"{platform.name}-{group.name}", yes=options.yes)
    _use(file, group.name, bought, platform.region, write=options.write)


def _check(options: CapacityOptions) -> None:
    """Raise UsageError for options that do not go together."""
    if sum(each is not None for each in (options.buy, options.extend, options.use)) > 1:
        raise usage_error(
            "--buy, --extend, and --use cannot be combined",
            why="each chooses something else to pay for",
            fix="use one of them",
        )
    if options.write and not (options.buy or options.use):
        raise usage_error("--write", why="nothing is chosen", fix="add --buy OFFERING, or --use ID of what you have")


def _wanted(platform: Platform, group: NodeGroup, options: CapacityOptions) -> Wanted:
    """Return the capacity to look for: what the options say, or else what the node group has."""
    from trainway.extensions.capacity.wanted import Wanted, kinds_for, utc
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.facts.offerings import load_offerings

    instance = load_catalogue()[group.instance_type]
    named = options.region or [platform.region]
    return Wanted(
        instance,
        options.count or group.count or group.largest,
        options.hours,
        kinds_for(platform, instance),
        tuple(load_offerings().regions_with(instance.name) if options.everywhere else named),
        utc(options.start) if options.start else None,
        utc(options.end) if options.end else None,
        platform.orchestrator.is_hyperpod,
    )


def _buy(wanted: Wanted, offering: str, name: str, *, yes: bool) -> str:
    """Buy an offering of the answer, and return the ID of what was bought."""
    from trainway.extensions.capacity.buy import buy
    from trainway.extensions.capacity.offers import find_offers
    from trainway.extensions.capacity.show import confirmation

    offer = next((each for each in find_offers(wanted).offers if each.id == offering), None)
    if offer is None:
        fix = "repeat the command without --buy for today's offerings"
        raise usage_error(offering, why="AWS does not offer it any more, for these nodes and hours", fix=fix)
    _confirm(confirmation(offer), yes=yes)
    bought = buy(offer, f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    print(f"bought: {bought}")
    return bought


def _extend(purchase: str, region: str, hours: int, *, yes: bool) -> None:
    from trainway.extensions.capacity.buy import extend, extensions_of
    from trainway.spec.sections.capacity import minute

    found = sorted(extensions_of(purchase, region, hours), key=lambda each: (each.usd is None, each.usd or 0))
    if not found:
        why = f"AWS offers no {hours} hours more for it"
        raise usage_error(purchase, why=why, fix="try other --hours, in whole days")
    cheapest = found[0]
    until = f" until {minute(cheapest.end)}" if cheapest.end else ""
    fee = "a fee in another currency" if cheapest.usd is None else f"${cheapest.usd:,.2f}"
    _confirm(f"{purchase}: {cheapest.hours} hours more{until}, for {fee}, paid now", yes=yes)
    extend(purchase, region, cheapest)
    print(f"extended: {purchase}{until}. Set `end` of its `capacity` in the platform file.")


def _use(file: Path, group: str, purchase: str, region: str, *, write: bool) -> None:
    """Print the section of a purchase, or write it into the platform file."""
    from trainway.extensions.capacity.buy import read_purchase
    from trainway.extensions.capacity.write import section_of, write_capacity
    from trainway.spec.loader import load_platform

    found = read_purchase(purchase, region)
    platform = load_platform(file)
    mine = next(each for each in platform.node_groups if each.name == group)
    if found.instance_type != mine.instance_type:
        why = f"it is of {found.instance_type}, and the group {group} of {mine.instance_type}"
        raise usage_error(purchase, why=why, fix="name another group by --group, or change its `instance_type`")
    zone = found.zones[0] if found.zones and platform.zone_of(mine) not in found.zones else None
    if not write:
        print(f"capacity: {section_of(found)}" + (f"\nzone: {zone}" if zone else ""))
        return
    write_capacity(file, group, found, zone)
    print(f"{file}: the group {group} has {found.count} × {found.instance_type} of {purchase}")


def _confirm(what: str, *, yes: bool) -> None:
    """Ask a person. Raises UsageError if there is nobody to ask, and typer.Abort for another answer than yes."""
    print(what, file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        raise usage_error("nothing was bought", why="there is no terminal to ask at", fix="add --yes if you are sure")
    typer.confirm("Buy it?", abort=True)
