"""The way from nodes in an existing VPC to the internet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.problems import KeyPath

ANYWHERE = "0.0.0.0/0"


@check("ec2:DescribeRouteTables")
def routes(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The route tables of adopted and of new subnets in your VPC lead to the internet, through NAT or another way."""
    existing = inquiry.platform.network.existing
    if existing is None or inquiry.platform.network.is_closed:
        return
    here = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    pages = inquiry.aws.pages("ec2", "describe_route_tables", Filters=here)
    tables = [table for page in pages for table in page["RouteTables"]]
    used = dict[str, tuple[str, KeyPath]]()
    if existing.route_table_id:
        key: KeyPath = ("network", "existing", "route_table_id")
        if existing.route_table_id not in {table["RouteTableId"] for table in tables}:
            yield error(
                f"the VPC {existing.vpc_id} has no route table {existing.route_table_id}",
                why="new subnets use it",
                fix=f"`trainway adopt {existing.vpc_id}` shows what the VPC has now",
                key=key,
            )
        used[existing.route_table_id] = ("new subnets", key)
    for name, subnet in existing.subnets.items():
        if table := _table_of(subnet.id, tables):
            used.setdefault(table["RouteTableId"], (name, ("network", "existing", "subnets", name)))
    for table in tables:
        if table["RouteTableId"] in used:
            yield from _way_out(table, *used[table["RouteTableId"]])


def _table_of(subnet: str, tables: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the table that a subnet is associated with, or else the VPC's main one."""
    main = None
    for table in tables:
        for association in table.get("Associations", []):
            if association.get("SubnetId") == subnet:
                return table
            if association.get("Main"):
                main = table
    return main


def _way_out(table: Mapping[str, Any], who: str, key: KeyPath) -> Iterator[AccountFinding]:
    identifier = table["RouteTableId"]
    ways = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == ANYWHERE]
    why = f"the nodes and the pods of {who} fetch from AWS and the internet by this table"
    if not ways:
        yield error(
            f"{identifier} has no route to {ANYWHERE}",
            why=why,
            fix="add a route to a NAT gateway, a transit gateway, or a firewall, or write `access: closed`",
            key=key,
        )
    elif ways[0].get("State") == "blackhole":
        yield error(
            f"the route of {identifier} to {ANYWHERE} leads nowhere",
            why=f"{why}. What the route names was deleted",
            fix="replace the route with one to a NAT gateway that exists",
            key=key,
        )
    elif ways[0].get("GatewayId", "").startswith("igw-"):
        yield error(
            f"the route of {identifier} to {ANYWHERE} is an internet gateway",
            why=f"{why}. They have no public addresses, and an internet gateway serves only those that have one",
            fix="use subnets whose table leads to a NAT gateway",
            key=key,
        )
