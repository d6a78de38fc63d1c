"""`trainway adopt`: the section of a platform file that uses your network, cluster, or file system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, PlatformFile
from trainway.commands.progress import working
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.spec.platform import Platform


def adopt(
    resource: Annotated[
        str,
        typer.Argument(metavar="ID", help="ID of your VPC or file system, or name of your cluster."),
    ],
    file: PlatformFile = DEFAULT_PLATFORM,
    subnet: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ID",
            help="Use your subnet ID as the subnet NAME of `trainway plan`. Repeat the option for each subnet.",
        ),
    ] = None,
    security_group: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Security group of the nodes, or of the file system. Default: a new one for the nodes."
        ),
    ] = None,
    route_table: Annotated[str | None, typer.Option(metavar="ID", help="Route table of new subnets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the section as JSON instead of YAML.")] = False,
) -> None:
    """Inspect your VPC, Lustre file system, or EKS cluster, and print the section of the platform file that uses it."""
    from trainway.spec.loader import load_platform

    platform = load_platform(file)
    if resource.startswith("fs-"):
        section = _file_system_section(resource, platform, security_group)
    elif resource.startswith("vpc-"):
        theirs = dict(each.partition("=")[::2] for each in subnet or [])
        section = _network_section(resource, platform, theirs, security_group, route_table)
    else:
        section = _cluster_section(resource, platform)
    _print_section(section, as_json=as_json)


def _file_system_section(file_system_id: str, platform: Platform, security_group_id: str | None) -> dict[str, Any]:
    """Return the section of a platform file that uses a Lustre file system."""
    from trainway.adopt.file_system import look_at_file_system

    with working(f"reading {file_system_id} from AWS"):
        found = look_at_file_system(file_system_id, region=platform.region, security_group_id=security_group_id)
    return {"storage": {"lustre": {"existing": found.model_dump(mode="json", exclude_defaults=True)}}}


def _cluster_section(cluster: str, platform: Platform) -> dict[str, Any]:
    """Return the section of a platform file that uses an EKS cluster, by its name or its ARN."""
    from trainway.adopt.cluster import look_at_cluster

    with working(f"reading {cluster} from AWS"):
        found = look_at_cluster(cluster.rpartition("/")[2], platform=platform.name, region=platform.region)
    return {"kubernetes": {"existing": found.model_dump(mode="json", exclude_none=True, exclude_defaults=True)}}


def _network_section(
    vpc_id: str,
    platform: Platform,
    subnets: dict[str, str],
    security_group_id: str | None,
    route_table_id: str | None,
) -> dict[str, Any]:
    """Return the section of a platform file that uses a VPC, with some of its subnets by their names in the plan."""
    from trainway.adopt.network import look_at_network

    _check_subnets(subnets, platform)
    with working(f"reading {vpc_id} from AWS"):
        found = look_at_network(
            vpc_id,
            platform=platform.name,
            region=platform.region,
            subnets=subnets,
            security_group_id=security_group_id,
            route_table_id=route_table_id,
            known=platform.network.existing.cidrs if platform.network.existing else (),
        )
    return {"network": {"existing": found.model_dump(mode="json", exclude_none=True, exclude_defaults=True)}}


def _check_subnets(subnets: dict[str, str], platform: Platform) -> None:
    """Raise UsageError for a subnet that the platform does not plan."""
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.network.addressing import plan_addresses
    from trainway.spec.network.subnets import SubnetRole

    planned = plan_addresses(platform, load_catalogue()).subnets
    # In a VPC that exists the way out is there, and so are its public subnets.
    names = {each.name for each in planned if each.role is not SubnetRole.PUBLIC}
    if unknown := [name for name in subnets if name not in names]:
        raise usage_error(
            f"--subnet {unknown[0]}={subnets[unknown[0]]} cannot be used",
            why=f"{platform.name} has no subnet {unknown[0]}",
            fix=f"its subnets are {', '.join(sorted(names))}",
        )


def _print_section(section: dict[str, Any], *, as_json: bool) -> None:
    """Print a section of a platform file, in YAML that the platform file's reader reads as the same values."""
    from trainway.spec.strict_yaml import dump

    text = json.dumps(section, indent=2) + "\n" if as_json else dump(section)
    print(text, end="")
