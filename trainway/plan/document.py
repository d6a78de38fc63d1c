"""The plan of a platform as one document, before anything is deployed."""

from __future__ import annotations

from typing import Any

from trainway.manifests.namespace import namespace_of
from trainway.price.document import price_document
from trainway.spec.capacity.autoscaling import autoscaled_groups, fixed_because, scaled_groups
from trainway.spec.capacity.capacity_times import capacity_times
from trainway.spec.capacity.devices import device_counts, ranks_of
from trainway.spec.capacity.group_types import types_of
from trainway.spec.capacity.quotas import quota_needs
from trainway.spec.deployment.creation import creation_steps, critical_path, minutes
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.image_builds import additions_builds, image_builds
from trainway.spec.facts.prices import PriceBook, listed_price
from trainway.spec.facts.services import service_facts
from trainway.spec.facts.versions import versions_facts
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.image_build import bases_of_earlier_images, has_additions, variant_of
from trainway.spec.kubernetes.addons import addon_names
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.kubernetes.pod_network import pods_of_group
from trainway.spec.network.addressing import AddressPlan, plan_addresses
from trainway.spec.network.endpoints import GATEWAY, interface_endpoints, makes_gateway
from trainway.spec.observability.collection import collector_of, why_not_collected
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import TimedCapacity, capacity_kind, minute
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.storage.checkpoint_layout import checkpoint_layout
from trainway.spec.storage.file_system_price import monthly_price
from trainway.spec.storage.lustre_clients import transport
from trainway.spec.teams.personas import personas

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
        "metrics": _metrics(platform),
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


def _metrics(platform: Platform) -> JsonObject:
    collector = collector_of(platform)
    off = why_not_collected(platform) or "the platform file turns the collector off"
    return {"collector": collector and collector.value, "why_not": None if collector else off}


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
    """Return how the nodes of a group are bought, and the times that the file names, in UTC."""
    capacity = group.capacity
    document: JsonObject = {"kind": capacity_kind(capacity)}
    if isinstance(capacity, TimedCapacity) and capacity.start and capacity.end:
        times, ends = capacity_times(group), {"start": capacity.start, "end": capacity.end}
        document |= {name: minute(at) for name, at in (vars(times) if times else ends).items()}
    return document


def _scaling(platform: Platform, catalogue: Catalogue, index: int) -> JsonObject:
    """Return the fewest nodes of a group and who scales it, or why a group with room to grow keeps its count."""
    group = platform.node_groups[index]
    by = "the Cluster Autoscaler" if group in scaled_groups(platform, catalogue) else None
    by = by or ("Karpenter" if group in autoscaled_groups(platform) else None)
    return {"from": group.count, "by": by, "fixed_because": fixed_because(platform, group, catalogue)}


def _storage(platform: Platform, catalogue: Catalogue, addresses: AddressPlan) -> JsonObject:
    """Return how nodes reach the file system, the prefixes for checkpoints, and what `make destroy` keeps."""
    layout, storage = checkpoint_layout(platform, catalogue), platform.storage
    clients = platform.node_groups if storage.lustre else ()
    transports = {group.name: transport(platform, group, catalogue, addresses) for group in clients}
    kept = {key: each.existing is not None or each.on_destroy == "keep" for key, each in storage.lustre_by_key.items()}
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
    price = monthly_price(platform.region, None if lustre.is_elastic else lustre.capacity_gib, throughput)
    return {"key": f"storage.{key}", "generation": lustre.generation, "price": None if lustre.existing else price}


def _deploy(platform: Platform, catalogue: Catalogue) -> JsonObject:
    """Return the critical path of a first deploy, and the durations of what is created in parallel to it."""
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
    """Return what each team is guaranteed, and what enforces it, or None if nothing does."""
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
    endpoint, adopted = platform.kubernetes_or_default.endpoint, platform.adopted_cluster
    if adopted:
        return {"public_to": [], "existing_cluster": adopted.name}
    return {"public_to": [str(each) for each in endpoint.public_to] if endpoint else []}
