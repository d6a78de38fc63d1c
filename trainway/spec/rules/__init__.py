"""What a platform file must satisfy across its keys: one function a rule, every rule run, every breach reported.

A rule yields `(key path, reason, remedy)` and never raises; `RULES` is the whole list, in the order of the file.
"""

from __future__ import annotations

from trainway.spec.rules.hyperpod import (
    a_volume_key_can_be_used,
    hyperpod_offers_the_types,
    hyperpods_metrics_can_be_made_and_sent,
)
from trainway.spec.rules.network import (
    addresses_fit,
    adopted_subnets_are_planned_ones,
    an_existing_network_says_where_new_subnets_go,
)
from trainway.spec.rules.node_groups import (
    capacity_fits_the_orchestrator,
    counts_are_in_order,
    instance_types_are_known,
    max_pods_can_be_run,
    node_groups_are_named_once,
)
from trainway.spec.rules.orchestrator import (
    sections_match_the_orchestrator,
    what_only_kubernetes_has_is_not_asked_of_slurm,
)
from trainway.spec.rules.rule import Rule
from trainway.spec.rules.storage import lustre_capacity_is_sold
from trainway.spec.rules.system_nodes import system_nodes_carry_their_pods
from trainway.spec.rules.teams import people_have_somewhere_to_go, teams_share_what_exists
from trainway.spec.rules.zones import (
    eks_has_its_zones,
    node_group_zones_are_listed,
    zones_are_named_once,
    zones_belong_to_the_region,
)

RULES: tuple[Rule, ...] = (
    zones_belong_to_the_region,
    zones_are_named_once,
    eks_has_its_zones,
    sections_match_the_orchestrator,
    what_only_kubernetes_has_is_not_asked_of_slurm,
    a_volume_key_can_be_used,
    hyperpods_metrics_can_be_made_and_sent,
    addresses_fit,
    adopted_subnets_are_planned_ones,
    an_existing_network_says_where_new_subnets_go,
    node_groups_are_named_once,
    instance_types_are_known,
    hyperpod_offers_the_types,
    counts_are_in_order,
    max_pods_can_be_run,
    node_group_zones_are_listed,
    capacity_fits_the_orchestrator,
    lustre_capacity_is_sold,
    teams_share_what_exists,
    system_nodes_carry_their_pods,
    people_have_somewhere_to_go,
)
