"""`trainway instances`: the instance types that a platform file can name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.printing import show
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.spec.facts.catalogue import Catalogue, Instance


def instances(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAMES",
            help="Instance types or families, for example g6e or p5.48xlarge. Default: every type with accelerators, "
            "and one line per family of the others.",
            show_default=False,
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="REGION",
            help="List only the types that EC2 has in a Region, for example us-west-2, with their zones. Default: all "
            "types.",
        ),
    ] = None,
    hyperpod: Annotated[
        bool, typer.Option("--hyperpod", help="List only the types that SageMaker HyperPod takes. Default: all types.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a table, with one entry per instance type.")
    ] = False,
) -> None:
    """List the instance types that a platform file can name."""
    from trainway.spec.facts.catalogue import load_catalogue

    catalogue = load_catalogue()
    named = _named(names or [], catalogue)
    there = _zones(region, named or catalogue) if region else None
    found = [
        catalogue[name]
        for name in named or catalogue
        if (there is None or there[name]) and (not hyperpod or catalogue[name].hyperpod_name)
    ]
    if as_json:
        print(json.dumps([_document(each, there) for each in found], indent=2))
        return
    show("\n".join(_table(found, there, families=not named)) or "no such types")


def _named(words: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Return the types that words name, by themselves or by their family. Raises UsageError for another word."""
    found = dict[str, None]()
    for word in words:
        members = [word] if word in catalogue else [each.name for each in catalogue.family(word)]
        if not members:
            if why := catalogue.why_left_out(word):
                raise usage_error(word, why=f"the platform does not support it: {why}", fix="name another type")
            families = sorted({name.partition(".")[0] for name in catalogue})
            near = catalogue.suggest(word) or difflib.get_close_matches(word, families, n=3)
            fix = f"did you mean {' or '.join(near)}?" if near else "`trainway instances` lists the types"
            raise usage_error(word, why="the catalogue has no such instance type or family", fix=fix)
        found |= dict.fromkeys(members)
    return list(found)


def _zones(region: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the zones of a Region that EC2 has each type in. Raises UsageError for a Region that is not known."""
    from trainway.spec.facts.offerings import load_offerings

    offerings = load_offerings()
    if not offerings.zones.get(region):
        known = [name for name, zones in offerings.zones.items() if zones]
        near = difflib.get_close_matches(region, known, n=3) or known
        why, fix = "the zones of this Region are not known", f"name one of {', '.join(near)}"
        raise usage_error(f"--in {region}", why=why, fix=fix)
    return {name: offerings.zones_and_local_zones_with(name, region) for name in names}


def _table(found: Sequence[Instance], there: dict[str, list[str]] | None, *, families: bool) -> Iterable[str]:
    """Yield a line for each type. With `families`, types without accelerators have one line per family, at the end."""
    shown = [each for each in found if each.accelerator or not families]
    if shown:
        heads = f"{'TYPE':18} {'ACCELERATORS':22} {'VCPUS':>5} {'GIB':>5} {'EFA':>3} {'GBPS':>5}  {'ORCHESTRATORS':13}"
        yield f"{heads}  {'ZONES' if there else ''}".rstrip()
    for each in shown:
        chips = "-"
        if accelerator := each.accelerator:
            chips = f"{accelerator.count} × {accelerator.name} {accelerator.memory_gib} GiB"
        yield (
            f"{each.name:18} {chips:22} {each.vcpus:5} {each.memory_gib:5} {each.efa_interfaces:3} "
            f"{each.network_gbps:5g}  {_orchestrators([each]):13}  {', '.join(there[each.name]) if there else ''}"
        ).rstrip()
    groups: dict[str, list[Instance]] = {}
    for each in found:
        if each not in shown:
            groups.setdefault(each.name.partition(".")[0], []).append(each)
    if groups:
        yield f"\n{'FAMILY':20} {'SIZES':>5} {'VCPUS':>9} {'GIB':>11}  ORCHESTRATORS"
    for family, sizes in groups.items():
        vcpus = f"{min(each.vcpus for each in sizes)}-{max(each.vcpus for each in sizes)}"
        memory = f"{min(each.memory_gib for each in sizes)}-{max(each.memory_gib for each in sizes)}"
        yield f"{family:20} {len(sizes):5} {vcpus:>9} {memory:>11}  {_orchestrators(sizes)}"
    if groups:
        yield "\n`trainway instances FAMILY` lists the sizes of a family. Arm types: nodes for data, and Slurm's heads."


def _orchestrators(sizes: Sequence[Instance]) -> str:
    if sizes[0].architecture == "arm64" and sizes[0].accelerator:
        return "none (Arm)"
    return "EKS, HyperPod" if any(each.hyperpod_name for each in sizes) else "EKS"


def _document(instance: Instance, there: dict[str, list[str]] | None) -> dict[str, Any]:
    document = instance.model_dump(mode="json", exclude={"sources", "interfaces"})
    document["efa_interfaces"] = instance.efa_interfaces
    return document if there is None else document | {"zones": there[instance.name]}
