"""What a platform file must satisfy across its keys: one function a rule, every rule run, every breach reported.

A rule yields `(key path, reason, remedy)` and never raises; `RULES` is the whole list, in the order of the file.
"""

from __future__ import annotations

from trainway.spec.rules.devices import (
    claims_are_served_by_the_kubernetes_version,
    hyperpod_has_device_plugins,
    kai_counts_no_fractions,
    mig_divides_what_can_be_divided,
    queues_count_what_is_claimed,
    there_are_devices_to_give_out,
)
from trainway.spec.rules.group_types import several_types_can_be_asked_for, several_types_serve_one_job
from trainway.spec.rules.hyperpod import (
    a_volume_key_can_be_used,
    hyperpod_offers_the_types,
    hyperpods_metrics_can_be_made,
    karpenter_has_what_it_needs,
    only_hyperpod_waits_for_a_number_of_nodes,
)
from trainway.spec.rules.image import (
    add_ons_are_for_gpus,
    add_ons_are_named_once,
    eks_alone_is_told_how_images_are_pulled,
    image_versions_are_a_combination,
    the_image_can_have_the_agent,
    the_image_is_for_the_nodes,
)
from trainway.spec.rules.kai import (
    kai_counts_what_nodes_have,
    kai_has_something_to_share,
    kai_tells_guaranteed_nodes_apart,
)
from trainway.spec.rules.kubernetes_version import the_kubernetes_version_exists
from trainway.spec.rules.lustre import (
    an_existing_file_system_is_left_alone,
    fsx_has_such_file_systems_there,
    intelligent_tiering_is_sold,
    links_to_s3_are_possible,
    lustre_capacity_is_sold,
    lustre_keys_are_of_its_storage_class,
    metadata_iops_are_sold,
    only_linkable_file_systems_are_linked,
    root_is_squashed_or_not,
    some_node_speaks_efa_with_lustre,
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
from trainway.spec.rules.patching import (
    an_image_version_is_of_hyperpods_image,
    patching_is_by_schedule_or_by_strategy,
    slurm_is_patched_all_at_once,
)
from trainway.spec.rules.processors import nodes_have_the_processors_that_everything_is_built_for
from trainway.spec.rules.rule import Rule
from trainway.spec.rules.slurm import (
    secrets_can_be_read,
    settings_are_nobody_elses,
    slurm_counts_guarantees_of_one_type,
    somebody_may_run_jobs,
    teams_are_not_called_as_slurms_own,
)
from trainway.spec.rules.slurm_containers import containers_are_for_the_nodes_processors
from trainway.spec.rules.slurm_users import (
    home_directories_can_be_made,
    team_users_have_accounts,
    users_and_groups_are_told_apart,
    users_are_in_groups_that_there_are,
)
from trainway.spec.rules.storage import (
    bucket_names_fit,
    dynamic_volumes_are_of_kubernetes,
    home_capacity_is_sold,
    home_is_of_slurm,
    storage_keys_are_of_the_region,
    what_is_kept_has_a_network_to_stay_in,
)
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
    patching_is_by_schedule_or_by_strategy,
    slurm_is_patched_all_at_once,
    hyperpods_metrics_can_be_made,
    karpenter_has_what_it_needs,
    addresses_fit,
    adopted_subnets_are_planned_ones,
    an_existing_network_says_where_new_subnets_go,
    node_groups_are_named_once,
    instance_types_are_known,
    nodes_have_the_processors_that_everything_is_built_for,
    hyperpod_offers_the_types,
    several_types_can_be_asked_for,
    several_types_serve_one_job,
    an_image_version_is_of_hyperpods_image,
    mig_divides_what_can_be_divided,
    counts_are_in_order,
    only_hyperpod_waits_for_a_number_of_nodes,
    max_pods_can_be_run,
    node_group_zones_are_listed,
    capacity_fits_the_orchestrator,
    bucket_names_fit,
    fsx_has_such_file_systems_there,
    lustre_keys_are_of_its_storage_class,
    lustre_capacity_is_sold,
    intelligent_tiering_is_sold,
    metadata_iops_are_sold,
    root_is_squashed_or_not,
    only_linkable_file_systems_are_linked,
    links_to_s3_are_possible,
    some_node_speaks_efa_with_lustre,
    an_existing_file_system_is_left_alone,
    home_is_of_slurm,
    home_capacity_is_sold,
    storage_keys_are_of_the_region,
    what_is_kept_has_a_network_to_stay_in,
    dynamic_volumes_are_of_kubernetes,
    image_versions_are_a_combination,
    the_image_can_have_the_agent,
    the_image_is_for_the_nodes,
    add_ons_are_for_gpus,
    add_ons_are_named_once,
    eks_alone_is_told_how_images_are_pulled,
    teams_share_what_exists,
    teams_are_not_called_as_slurms_own,
    somebody_may_run_jobs,
    slurm_counts_guarantees_of_one_type,
    settings_are_nobody_elses,
    secrets_can_be_read,
    containers_are_for_the_nodes_processors,
    users_and_groups_are_told_apart,
    users_are_in_groups_that_there_are,
    team_users_have_accounts,
    home_directories_can_be_made,
    kai_has_something_to_share,
    kai_counts_what_nodes_have,
    kai_tells_guaranteed_nodes_apart,
    hyperpod_has_device_plugins,
    there_are_devices_to_give_out,
    the_kubernetes_version_exists,
    claims_are_served_by_the_kubernetes_version,
    queues_count_what_is_claimed,
    kai_counts_no_fractions,
    system_nodes_carry_their_pods,
    people_have_somewhere_to_go,
)
