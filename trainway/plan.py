"""What a platform will have, before anything is made: one document, and the same as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.manifests.namespace import namespace_of
from trainway.price.document import price_document, price_text
from trainway.spec.derived.addons import addon_names
from trainway.spec.derived.addressing import AddressPlan, plan_addresses
from trainway.spec.derived.autoscaling import autoscaled_groups, fixed_because, scaled_groups
from trainway.spec.derived.capacity_times import capacity_times
from trainway.spec.derived.charts import chart_names
from trainway.spec.derived.checkpoint_layout import checkpoint_layout
from trainway.spec.derived.creation import creation_steps, critical_path, minutes
from trainway.spec.derived.devices import device_counts, ranks_of
from trainway.spec.derived.endpoints import GATEWAY, interface_endpoints, makes_gateway
from trainway.spec.derived.file_system_price import monthly_price
from trainway.spec.derived.group_types import types_of
from trainway.spec.derived.image_build import bases_of_earlier_images, has_additions, variant_of
from trainway.spec.derived.lustre_clients import transport
from trainway.spec.derived.personas import personas
from trainway.spec.derived.pod_network import pods_of_group
from trainway.spec.derived.quotas import quota_needs
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.image_builds import additions_builds, image_builds
from trainway.spec.facts.prices import PriceBook, listed_price
from trainway.spec.facts.services import service_facts
from trainway.spec.facts.versions import versions_facts
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import TimedCapacity, capacity_kind, minute
from trainway.spec.sections.node_group import NodeGroup

JsonObject = dict[str, Any]


def plan_document(platform: Platform, catalogue: Catalogue, prices: PriceBook = listed_price) -> JsonObject:
    """Return the VPC, its subnets and endpoints, nodes, add-ons, charts, teams, the quotas they take, and the price.

    `prices` are by default those that Trainway has, each with its date.
    """
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
        "endpoints": [*([GATEWAY] if makes_gateway(platform) else []), *interface_endpoints(platform, catalogue)],
        "node_groups": [_nodes(platform, catalogue, index) for index in range(len(platform.node_groups))],
        "storage": _storage(platform, catalogue, addresses),
        "addons": list(addon_names(platform)),
        "charts": list(chart_names(platform, catalogue)),
        "teams": _teams(platform),
        "people": _people(platform),
        "endpoint": _endpoint(platform),
        "extension": str(platform.extension.file) if platform.extension else None,
        "deploy": _deploy(platform, catalogue),
        "image": _image(platform, catalogue),
        "additions": _additions(platform, catalogue),
        "images": _images(platform, catalogue),
        "quotas": [vars(need) for need in quota_needs(platform, catalogue)],
        "price": price_document(platform, catalogue, prices),
    }


def _nodes(platform: Platform, catalogue: Catalogue, index: int) -> JsonObject:
    group, orchestrator = platform.node_groups[index], platform.orchestrator
    instances = types_of(group, catalogue)
    # Of the devices all types have the same, and of the pods each has at least the fewest.
    instance = instances[0]
    pods = min(pods_of_group(group, each, orchestrator) for each in instances)
    return {
        "name": group.name,
        "instance_type": group.instance_type,
        "or_types": list(group.or_types),
        "max_count": group.largest,
        "capacity": _capacity(group),
        "scaling": _scaling(platform, catalogue, index),
        "ranks_per_node": ranks_of(group, instance),
        "devices_per_node": device_counts(platform, group, catalogue),
        "pods_per_node": pods if orchestrator.is_kubernetes else None,
    }


def _capacity(group: NodeGroup) -> JsonObject:
    """How the group's nodes are bought, and the times that the file names, in UTC."""
    capacity = group.capacity
    document: JsonObject = {"kind": capacity_kind(capacity)}
    if isinstance(capacity, TimedCapacity) and capacity.start and capacity.end:
        times, ends = capacity_times(group), {"start": capacity.start, "end": capacity.end}
        document |= {name: minute(at) for name, at in (vars(times) if times else ends).items()}
    return document


def _scaling(platform: Platform, catalogue: Catalogue, index: int) -> JsonObject:
    """The fewest nodes and who scales the group, or why a group with room to grow keeps its count."""
    group = platform.node_groups[index]
    by = "the Cluster Autoscaler" if group in scaled_groups(platform, catalogue) else None
    by = by or ("Karpenter" if group in autoscaled_groups(platform) else None)
    return {"from": group.count, "by": by, "fixed_because": fixed_because(platform, group, catalogue)}


def _storage(platform: Platform, catalogue: Catalogue, addresses: AddressPlan) -> JsonObject:
    """How nodes reach the file system, on how many prefixes checkpoints are written, and what a destroy leaves."""
    layout, storage = checkpoint_layout(platform, catalogue), platform.storage
    transports = {group.name: transport(platform, group, catalogue, addresses) for group in platform.node_groups}
    kept = {"lustre": storage.lustre.existing is not None or storage.lustre.on_destroy == "keep"}
    if storage.former_lustre:
        kept["former_lustre"] = storage.former_lustre.on_destroy == "keep"
    if storage.home:
        kept["home"] = storage.home.on_destroy == "keep"
    return {
        "transports": {name: {"by": by, "because": why or None} for name, (by, why) in transports.items()},
        "checkpoints": {
            "writers": layout.writers,
            "requests_each": layout.requests_each,
            "prefixes": layout.prefixes,
            "writers_on_a_prefix": layout.writers_on_a_prefix,
            "requests_on_a_prefix": layout.requests_on_a_prefix,
            "documented": service_facts().s3.writes_per_prefix,
        },
        "file_systems": [_file_system(platform, key) for key in storage.lustre_by_key],
        "protected": platform.deletion_protection,
        "kept": ["bucket", *(name for name, is_kept in kept.items() if is_kept)],
        "deleted": [name for name, is_kept in kept.items() if not is_kept],
    }


def _file_system(platform: Platform, key: str) -> JsonObject:
    lustre = platform.storage.lustre_by_key[key]
    throughput = None if lustre.is_scratch else lustre.throughput_mbps_per_tib
    price = monthly_price(None if lustre.is_elastic else lustre.capacity_gib, throughput)
    return {"key": f"storage.{key}", "generation": lustre.generation, "price": None if lustre.existing else price}


def _deploy(platform: Platform, catalogue: Catalogue) -> JsonObject:
    """The longest way through a first deploy, and how long what is made beside it takes."""
    steps = creation_steps(platform, catalogue)
    longest = critical_path(steps)
    return {
        "minutes": minutes(longest),
        "critical_path": [{"step": s.name, "minutes": s.minutes, "published": s.published} for s in longest],
        "beside": [{"step": s.name, "minutes": s.minutes} for s in steps if s not in longest],
    }


def _image(platform: Platform, catalogue: Catalogue) -> JsonObject | None:
    """Return what changes of the training image cost, as measured. None for Neuron, whose base image was not built.

    None also for an image that the deploy does not build.
    """
    if platform.image.uri is not None or variant_of(platform, catalogue) == "neuron":
        return None
    measured = image_builds()
    return {
        "measured_on": measured.machine,
        "date": measured.date.isoformat(),
        "changes": [change.model_dump() for change in measured.changes],
    }


def _additions(platform: Platform, catalogue: Catalogue) -> JsonObject | None:
    """Return what changes of packages and of a Dockerfile of the user's cost, as measured.

    None if the deploy builds no image with either. The base of a Neuron image was not measured.
    """
    views = [platform.of_image(name) for name in platform.image_names]
    if not any(v.image.uri is None and has_additions(v) and variant_of(v, catalogue) != "neuron" for v in views):
        return None
    measured = additions_builds()
    return {
        "measured_on": measured.machine,
        "date": measured.date.isoformat(),
        "base_bytes": measured.base_bytes,
        "changes": [change.model_dump() for change in measured.changes],
    }


def _images(platform: Platform, catalogue: Catalogue) -> list[JsonObject]:
    """List the images: who uses each by default, what for, and where its base is from. Empty for a single image."""
    if not platform.images:
        return []
    on_base = bases_of_earlier_images(platform, catalogue, versions_facts())
    found = []
    for name in platform.image_names:
        view = platform.of_image(name)
        groups = [group.name for group in platform.node_groups if (group.image or DEFAULT_IMAGE) == name]
        base = "built elsewhere" if view.image.uri else f"that of {on_base[name]}" if name in on_base else "its own"
        variant = None if view.image.uri else variant_of(view, catalogue)
        found.append({"name": name, "variant": variant, "groups": groups, "base": base, "added": has_additions(view)})
    return found


def _teams(platform: Platform) -> list[JsonObject]:
    """What each team is sure of, and by whom that is enforced: None where nothing does."""
    shared_by = {"task governance": platform.task_governance, "Kueue": platform.kueue, "KAI": platform.kai}
    shared_by["Run:ai"] = platform.run_ai
    shared_by["Slurm"] = not platform.orchestrator.is_kubernetes
    enforced_by = next((name for name, is_chosen in shared_by.items() if is_chosen), None)
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


def _people(platform: Platform) -> list[JsonObject]:
    """List who may use the cluster, and as what. Empty under Slurm, whose users have login names."""
    if not platform.orchestrator.is_kubernetes:
        return []
    by_role = platform.iam.persona_roles
    may = {True: "do everything", False: "read everything but secrets"}
    return [
        {
            "who": person,
            "persona": persona.name,
            "may": f"run jobs of team {persona.team}" if persona.team else may[persona.administers],
            "by": f"assuming the role of {persona.name}" if by_role else "an access entry",
        }
        for persona in personas(platform)
        for person in persona.people
    ]


def _endpoint(platform: Platform) -> JsonObject | None:
    """Return from where the cluster's API answers beside the VPC; None without Kubernetes."""
    if not platform.orchestrator.is_kubernetes:
        return None
    endpoint = platform.kubernetes_or_default.endpoint
    return {"public_to": [str(each) for each in endpoint.public_to] if endpoint else []}


def plan_text(document: JsonObject) -> str:
    """The document as tables."""
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
    if (teams := document["teams"]) and teams[0]["enforced_by"] == "Run:ai":
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
    parts.append(
        _table(
            ["needed", "service", "quota", "(EC2's count vCPUs, SageMaker's instances, FSx's what they say)"], quotas
        )
    )
    parts.append(price_text(document["price"]))
    return "\n\n".join(parts)


def _times_text(group: str, capacity: JsonObject) -> str:
    """The life of a group whose capacity starts and ends. HyperPod adds and removes the nodes of a training plan."""
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
    """The file system's clients, the sum behind the prefixes, and what is kept."""
    clients = ", ".join(
        f"{name} by {each['by']}" + (f" ({each['because']})" if each["because"] else "")
        for name, each in storage["transports"].items()
    )
    each = storage["checkpoints"]
    sums = f"{each['writers_on_a_prefix']} writers × {each['requests_each']} = {each['requests_on_a_prefix']}"
    deleted = f"; {' and '.join(storage['deleted'])} deleted" if storage["deleted"] else ""
    protected = " It is refused while the file says `deletion_protection: true`." if storage["protected"] else ""
    used, *former = storage["file_systems"]
    moved = "".join(
        f"Jobs use {used['key']} (generation {used['generation']}), {used['price'] or 'which is yours'}.\n"
        f"{each['key']} (generation {each['generation']}) stays beside it, {each['price']}, until you remove the "
        "section.\n"
        for each in former
    )
    return (
        f"Lustre: {clients}.\n"
        f"{moved}"
        f"Checkpoints in the bucket: {each['writers']} writers, {each['prefixes']} of its prefixes, on each at most "
        f"{sums} of the {each['documented']} requests a second that S3 answers on one.\n"
        f"After a destroy: {' and '.join(storage['kept'])} kept{deleted}.{protected}"
    )


def _endpoint_text(endpoint: JsonObject) -> str:
    """Say from where kubectl and `trainway launch` reach the cluster."""
    if public := endpoint["public_to"]:
        return f"The Kubernetes API answers inside the VPC, and calls from {', '.join(public)}."
    return "The Kubernetes API answers inside the VPC only: docs/kubernetes-access.md has the ways in."


def _way_through(deploy: JsonObject) -> str:
    """The critical path as a chain; a figure that is ours and not AWS's has a tilde."""
    chain = " → ".join(f"{s['step']} {'' if s['published'] else '~'}{s['minutes']}" for s in deploy["critical_path"])
    beside = ", ".join(f"{s['step']} {s['minutes']}" for s in deploy["beside"])
    return (
        f"A first deploy takes {deploy['minutes']} minutes or so, by the longest way through it: {chain}. "
        f"Beside it: {beside}. (~ an allowance, where AWS publishes no time)"
    )


def _image_text(image: JsonObject) -> str:
    """The cost of changes of the training image, and what the figures leave out."""
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
    """The cost of changes of what the platform adds to the image, and what the figures include and leave out."""
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
