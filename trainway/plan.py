"""What a platform will have, before anything is made: one document, and the same as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.manifests.namespace import namespace_of
from trainway.spec.addons import addon_names
from trainway.spec.addressing import plan_addresses
from trainway.spec.catalogue import Catalogue
from trainway.spec.charts import chart_names
from trainway.spec.endpoints import GATEWAY, interface_endpoints, makes_gateway
from trainway.spec.platform import Platform
from trainway.spec.pod_network import pods_of_group
from trainway.spec.quotas import quota_needs

Document = dict[str, Any]


def plan_document(platform: Platform, catalogue: Catalogue) -> Document:
    """The VPC, its subnets and endpoints, nodes, add-ons, charts, teams, and the quotas that all of it takes."""
    addresses = plan_addresses(platform, catalogue)
    return {
        "vpc_cidrs": [str(cidr) for cidr in addresses.vpc_cidrs],
        "subnets": [
            {
                "name": subnet.name,
                "role": subnet.role.value,
                "zone": subnet.zone,
                "cidr": str(subnet.cidr),
                "adopted": subnet.adopted.id if subnet.adopted else None,
                "needed": subnet.needed,
                "usable": subnet.usable,
                "saved_by_efa_only": subnet.need.saved_by_efa_only,
                "needs": [{"what": need.what, "addresses": need.addresses} for need in subnet.needs],
            }
            for subnet in addresses.subnets
        ],
        "endpoints": [*([GATEWAY] if makes_gateway(platform) else []), *interface_endpoints(platform)],
        "node_groups": [_nodes(platform, catalogue, index) for index in range(len(platform.node_groups))],
        "addons": list(addon_names(platform)),
        "charts": list(chart_names(platform, catalogue)),
        "teams": _teams(platform),
        "quotas": [vars(need) for need in quota_needs(platform, catalogue)],
    }


def _nodes(platform: Platform, catalogue: Catalogue, index: int) -> Document:
    group, orchestrator = platform.node_groups[index], platform.orchestrator
    instance = catalogue[group.instance_type]
    return {
        "name": group.name,
        "instance_type": group.instance_type,
        "max_count": group.largest,
        "ranks_per_node": instance.ranks,
        "devices_per_node": dict(instance.devices),
        "pods_per_node": pods_of_group(group, instance, orchestrator) if orchestrator.is_kubernetes else None,
    }


def _teams(platform: Platform) -> list[Document]:
    """What each team is sure of, and by whom that is enforced: None where nothing does."""
    enforced_by = "task governance" if platform.task_governance else "Kueue" if platform.kueue else None
    return [
        {
            "name": team.name,
            "namespace": namespace_of(platform, team) if platform.orchestrator.is_kubernetes else None,
            "guarantee": team.guarantee,
            "borrows": team.borrow,
            "fair_share": team.fair_share,
            "enforced_by": enforced_by,
        }
        for team in platform.teams
    ]


def plan_text(document: Document) -> str:
    """The document as tables."""
    subnets = [
        [s["name"], s["zone"], s["cidr"], s["needed"], s["usable"], _sum(s["needs"]), s["adopted"] or ""]
        for s in document["subnets"]
    ]
    nodes = [
        [n["name"], n["max_count"], n["instance_type"], n["ranks_per_node"], n["pods_per_node"] or "-", _devices(n)]
        for n in document["node_groups"]
    ]
    quotas = [[q["needed"], q["service"], q["code"] or "by name", q["name"]] for q in document["quotas"]]
    parts = [
        f"VPC {' and '.join(document['vpc_cidrs'])}",
        _table(["subnet", "zone", "range", "needed", "usable", "for", ""], subnets),
    ]
    if saved := sum(subnet["saved_by_efa_only"] for subnet in document["subnets"]):
        parts.append(f"EFA interfaces are efa-only and take no address, which saves {saved}.")
    if document["endpoints"]:
        parts.append(f"VPC endpoints: {', '.join(document['endpoints'])}")
    parts.append(_table(["nodes", "at most", "type", "ranks", "pods", "devices of each"], nodes))
    if document["addons"]:
        parts.append(f"EKS add-ons: {', '.join(document['addons'])}")
    if document["charts"]:
        parts.append(f"Charts: {', '.join(document['charts'])}")
    if teams := document["teams"]:
        rows = [
            [t["name"], t["namespace"] or "-", t["fair_share"], "yes" if t["borrows"] else "no", _guarantee(t)]
            for t in teams
        ]
        parts.append(_table(["team", "namespace", "share", "borrows", "guaranteed nodes"], rows))
        parts.append(f"Guarantees are enforced by {teams[0]['enforced_by'] or 'nothing'}.")
    parts.append(_table(["needed", "service", "quota", "(EC2's count vCPUs, SageMaker's instances)"], quotas))
    return "\n\n".join(parts)


def _sum(needs: Sequence[Document]) -> str:
    return " + ".join(f"{need['addresses']} {need['what']}" for need in needs)


def _guarantee(team: Document) -> str:
    return ", ".join(f"{count} × {name}" for name, count in team["guarantee"].items()) or "none"


def _devices(nodes: Document) -> str:
    return ", ".join(f"{count} {name}" for name, count in nodes["devices_per_node"].items()) or "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Columns as wide as their widest cell; numbers to the right, and nothing after the last word of a line."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        for line in cells
    ]
    return "\n".join(line.rstrip() for line in lines)
