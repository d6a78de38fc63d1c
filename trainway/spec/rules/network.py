"""The network: room for everything, in a new VPC or one that exists."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.addressing import AddressesDoNotFit, plan_addresses
from trainway.spec.derived.endpoints import makes_gateway
from trainway.spec.derived.subnets import node_subnets, shared_subnets
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, image_rule, instance_types, rule


@rule
def addresses_fit(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every subnet finds room in the VPC's range."""
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # reported by its own rule; there is nothing to size
    try:
        plan_addresses(platform, catalogue)
    except AddressesDoNotFit as error:
        yield error.key, str(error), error.remedy


@rule
def adopted_subnets_are_planned_ones(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Each subnet of an existing network takes the place of a planned subnet in the same zone."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in instance_types(platform)):
        return
    needs = {n.name: n for n in (*shared_subnets(platform, catalogue), *node_subnets(platform, catalogue))}
    for name, adopted in existing.subnets.items():
        key: KeyPath = ("network", "existing", "subnets", name)
        if name not in needs:
            yield key, "the platform has no subnet of this name", f"its subnets are {', '.join(needs)}"
        elif adopted.zone != needs[name].zone:
            remedy = "adopt a subnet of that zone, or change `zones` or the group's `zone`"
            yield (*key, "zone"), f"the plan has {name} in {needs[name].zone}", remedy


@rule
def an_existing_network_says_where_new_subnets_go(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Subnets that are made in an existing VPC need a range there, and a route table."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in instance_types(platform)):
        return
    needs = (*shared_subnets(platform, catalogue), *node_subnets(platform, catalogue))
    made = [need.name for need in needs if need.name not in existing.subnets]
    if made and "cidr" not in platform.network.model_fields_set:
        reason = f"it has no `cidr`, and {', '.join(made)} must be made somewhere"
        yield ("network",), reason, "name a free range of the VPC as `cidr`, or subnets to use for all of them"
    if existing.route_table_id is None and (made or makes_gateway(platform)):
        used_by = ", ".join(made) or "the endpoint of S3"
        yield (
            ("network", "existing"),
            f"it has no `route_table_id`, which {used_by} needs",
            "name a private route table",
        )


@rule
def a_closed_network_has_no_proxy(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A proxy leads to the internet, which a closed network does not reach."""
    if platform.network.proxy and platform.network.is_closed:
        reason = (
            "builds of a closed network fetch nothing; delivery/supply.sh takes the proxy of the shell that runs it"
        )
        yield ("network", "proxy"), reason, "remove it, or write access: private"


@image_rule
def a_login_is_for_an_index(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.build.pip_login` is the login to `image.build.pip_index`."""
    if platform.image.build.pip_login and platform.image.build.pip_index is None:
        yield ("image", "build", "pip_login"), "pypi.org has no login", "write pip_index, or remove pip_login"
