"""The plan of a platform as text: paragraphs and tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.price.document import price_text
from trainway.spec.kubernetes.charts import RUN_AI

JsonObject = dict[str, Any]


def plan_text(document: JsonObject) -> str:
    """Return the document of `plan_document` as text with tables."""
    subnets = [
        [s["name"], s["zone"], s["cidr"], s["needed"], s["usable"], _sum(s["needs"]), s["adopted"] or ""]
        for s in document["subnets"]
    ]
    nodes = [
        [n["name"], n["max_count"], _types(n), n["ranks_per_node"], n["pods_per_node"] or "-", _devices(n)]
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
    parts += [_times_text(n["name"], n["capacity"]) for n in document["node_groups"] if "start" in n["capacity"]]
    if scaling := _scaling_text(document["node_groups"]):
        parts.append(scaling)
    parts.append(_storage_text(document["storage"]))
    if document["addons"]:
        parts.append(f"EKS add-ons: {', '.join(document['addons'])}")
    if document["charts"]:
        parts.append(f"Charts: {', '.join(document['charts'])}")
    parts.append(_metrics_text(document["metrics"]))
    if (teams := document["teams"]) and teams[0]["enforced_by"] == "Run:ai" and RUN_AI not in document["charts"]:
        parts.append(_table(["team", "namespace"], [[t["name"], t["namespace"]] for t in teams]))
        parts.append("Teams have the quotas of Run:ai's projects.")
    elif teams:
        rows = [
            [t["name"], t["namespace"] or "-", t["fair_share"], "yes" if t["borrows"] else "no", _guarantee(t)]
            for t in teams
        ]
        parts.append(_table(["team", "namespace", "share", "borrows", "guaranteed nodes"], rows))
        parts.append(f"Guarantees are enforced by {teams[0]['enforced_by'] or 'nothing'}.")
    if people := document["people"]:
        rows = [[each["who"], each["may"], each["by"]] for each in people]
        parts.append(_table(["who may use the cluster", "may", "by"], rows))
        parts.append(_endpoint_text(document["endpoint"]))
    if document["extension"]:
        parts.append(f"Extended by {document['extension']}, whose stacks and changes are not shown here.")
    parts.append(_way_through(document["deploy"]))
    if images := document["images"]:
        rows = [
            [i["name"], i["variant"] or "-", ", ".join(i["groups"]) or "none", i["base"], "yes" if i["added"] else "no"]
            for i in images
        ]
        parts.append(_table(["image", "for", "default of groups", "base", "packages or Dockerfile"], rows))
    if image := document["image"]:
        parts.append(_image_text(image))
    if additions := document["additions"]:
        parts.append(_additions_text(additions))
    parts.append(_table(["needed", "service", "quota", "(in vCPUs for ec2, in instances for sagemaker)"], quotas))
    parts.append(price_text(document["price"]))
    return "\n\n".join(parts)


def _metrics_text(metrics: dict[str, str | None]) -> str:
    """Return what collects the metrics of the platform, or why nothing does."""
    if metrics["collector"]:
        return f"Metrics are collected by {metrics['collector']}, and the deploy installs the alarms."
    return f"Metrics of nodes and GPUs are not collected: {metrics['why_not']}."


def _times_text(group: str, capacity: JsonObject) -> str:
    """Return the life of a group whose capacity starts and ends. HyperPod adds and removes nodes of a training plan."""
    if "raised" not in capacity:
        return f"{group} has capacity from {capacity['start']} to {capacity['end']}, where HyperPod adds its nodes."
    return (
        f"{group} is deployed without nodes. Its Capacity Block starts at {capacity['start']}.\n"
        f"  {capacity['raised']}  a schedule adds the nodes\n"
        f"  {capacity['drained']}  a schedule drains them: jobs get SIGTERM, save a checkpoint, and end\n"
        f"  {capacity['scaled_down']}  EKS drains the nodes that are left\n"
        f"  {capacity['terminated']}  EC2 begins to terminate instances\n"
        f"  {capacity['end']}  the block ends"
    )


def _scaling_text(nodes: Sequence[JsonObject]) -> str:
    """Return a line for each autoscaler with the ranges of its groups, and one for each group that stays."""
    lines = []
    for name in ("the Cluster Autoscaler", "Karpenter"):
        ranges = [f"{n['name']} {n['scaling']['from']}–{n['max_count']}" for n in nodes if n["scaling"]["by"] == name]
        if ranges:
            lines.append(f"Scaled with the jobs by {name}: {', '.join(ranges)}.")
    lines += [
        f"{n['name']} stays at {n['scaling']['from']} of {n['max_count']}: {n['scaling']['fixed_because']}."
        for n in nodes
        if n["scaling"]["fixed_because"]
    ]
    return "\n".join(lines)


def _storage_text(storage: JsonObject) -> str:
    """Return the clients of the file system, how the number of prefixes follows, and what is kept."""
    clients = ", ".join(
        f"{name} by {each['by']}" + (f" ({each['because']})" if each["because"] else "")
        for name, each in storage["transports"].items()
    )
    each = storage["checkpoints"]
    sums = f"{each['writers_on_a_prefix']} writers × {each['requests_each']} = {each['requests_on_a_prefix']}"
    prefixes = "1 prefix" if each["prefixes"] == 1 else f"{each['prefixes']} prefixes"
    deleted = f", and deletes {' and '.join(storage['deleted'])}" if storage["deleted"] else ""
    protected = " It is refused while the file says `deletion_protection: true`." if storage["protected"] else ""
    used = next((each for each in storage["file_systems"] if each["key"] == "storage.lustre"), None)
    former = [each for each in storage["file_systems"] if each is not used]
    of_jobs = (
        f"Jobs use {used['key']} (generation {used['generation']}), {used['price'] or 'which is yours'}.\n"
        if used and former
        else ""
    )
    moved = of_jobs + "".join(
        f"{each['key']} (generation {each['generation']}) stays beside it, {each['price']}, until you remove the "
        "section.\n"
        for each in former
    )
    return (
        f"{f'Lustre: {clients}.' if used else 'No file system: jobs keep everything in the data bucket.'}\n"
        f"{moved}"
        f"Checkpoints in the bucket: {each['writers']} writers on {prefixes}. Each prefix gets at most {sums} of "
        f"the {each['documented']} requests a second that S3 supports.\n"
        f"`make destroy` keeps the {' and '.join(storage['kept'])}{deleted}.{protected}"
    )


def _endpoint_text(endpoint: JsonObject) -> str:
    """Say from where kubectl and `trainway launch` reach the cluster."""
    if existing := endpoint.get("existing_cluster"):
        return f"The cluster is {existing}, which exists. Its owner decides from where the Kubernetes API answers."
    if public := endpoint["public_to"]:
        return f"The Kubernetes API answers inside the VPC, and calls from {', '.join(public)}."
    return "The Kubernetes API answers inside the VPC only: docs/kubernetes-access.md has the ways in."


def _way_through(deploy: JsonObject) -> str:
    """Return the critical path as a chain. A duration that AWS does not state has a tilde."""
    chain = " → ".join(f"{s['step']} {'' if s['published'] else '~'}{s['minutes']}" for s in deploy["critical_path"])
    beside = ", ".join(f"{s['step']} {s['minutes']}" for s in deploy["beside"])
    return (
        f"A first deploy takes about {deploy['minutes']} minutes. Critical path: {chain}. "
        f"In parallel: {beside}. (~ is an estimate, because AWS publishes no time)"
    )


def _image_text(image: JsonObject) -> str:
    """Return how long changes of the training image take, and what the figures leave out."""
    rows = [
        [c["name"], _seconds(c["base_seconds"]), _seconds(c["image_seconds"]), f"{c['bytes'] / 1e6:,.1f} MB"]
        for c in image["changes"]
    ]
    return "\n".join(
        (
            _table(["change of the training image", "build of base", "of image", "fetched by each node"], rows),
            f"Measured on {image['measured_on']}, {image['date']}. These figures do not include EFA, NCCL's tests, "
            "and the time until CodeBuild starts a build.",
        )
    )


def _additions_text(additions: JsonObject) -> str:
    """Return how long changes of the image's additions take, and what the figures include and leave out."""
    rows = [
        [c["name"], _seconds(c["additions_seconds"]), _seconds(c["image_seconds"]), f"{c['bytes'] / 1e6:,.1f} MB"]
        for c in additions["changes"]
    ]
    return "\n".join(
        (
            _table(["change of your additions", "build of additions", "of image", "fetched by each node"], rows),
            f"Measured on {additions['measured_on']}, {additions['date']}, with small packages, a builder that had "
            f"nothing before, and a base of {additions['base_bytes'] / 1e6:,.0f} MB. A larger package adds its own "
            "size. These figures do not include the time until CodeBuild starts a build.",
        )
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds else "none"


def _sum(needs: Sequence[JsonObject]) -> str:
    return " + ".join(f"{need['addresses']} {need['what']}" for need in needs)


def _guarantee(team: JsonObject) -> str:
    return ", ".join(f"{count} × {name}" for name, count in team["guarantee"].items()) or "none"


def _types(nodes: JsonObject) -> str:
    return " or ".join((nodes["instance_type"], *nodes["or_types"]))


def _devices(nodes: JsonObject) -> str:
    return ", ".join(f"{count} {name}" for name, count in nodes["devices_per_node"].items()) or "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Return a table. Columns are as wide as their widest cell, numbers are aligned to the right."""
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
