"""The Kubernetes manifests of a platform: functions of the platform that return plain dictionaries.

`${TRAINWAY_…}` in a string is a placeholder for a fact that exists only after the stack is deployed. The delivery
replaces it.
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.chart_values import chart_values
from trainway.manifests.device_claims import claim_templates
from trainway.manifests.efa_exporter import efa_exporter
from trainway.manifests.guard_rails import guard_rails
from trainway.manifests.kai import kai_queues
from trainway.manifests.kai_guard import kai_guard
from trainway.manifests.kueue import local_queue, queues
from trainway.manifests.lustre_volume import lustre_storage_class, lustre_volumes
from trainway.manifests.namespace import namespaces, pod_security, team_namespace
from trainway.manifests.network_wall import network_wall, node_role_wall
from trainway.manifests.node_pools import node_pools
from trainway.manifests.personas import members, team_members, viewers
from trainway.manifests.priority_classes import priority_classes
from trainway.manifests.priority_guard import priority_guard
from trainway.manifests.run_ai import project_labels, run_ai_guard
from trainway.manifests.run_ai_projects import run_ai_projects
from trainway.manifests.spaces import space_guard
from trainway.manifests.team_directories import team_directory_guard
from trainway.manifests.team_directory_opener import team_directory_opener
from trainway.manifests.training_runtime import training_runtimes
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform

Manifest = dict[str, Any]


def cluster_manifests(platform: Platform, catalogue: Catalogue) -> dict[str, Manifest]:
    """Return every file of the delivery's `manifests` directory, by path.

    `values/…` are for the charts, `objects/…` are applied after the charts, and `autoscaling/…` once HyperPod runs
    Karpenter.
    """
    files = {f"values/{chart}": values for chart, values in chart_values(platform, catalogue).items()}
    for directory, manifests in (
        ("objects", _objects(platform, catalogue)),
        ("autoscaling", node_pools(platform, catalogue)),
    ):
        for position, manifest in enumerate(manifests):
            # kubectl applies files in the order of their names.
            kind, name = manifest["kind"].lower(), manifest["metadata"]["name"]
            files[f"{directory}/{position:03d}-{kind}-{name}"] = manifest
    if projects := run_ai_projects(platform, catalogue):
        files["run_ai/control_plane"] = projects
    return files


def _objects(platform: Platform, catalogue: Catalogue) -> list[Manifest]:
    """Return namespaces first, then cluster-wide objects, then namespaced objects that refer to both."""
    names = namespaces(platform)
    return [
        *(
            each
            for name in names
            for each in team_namespace(name, project_labels(platform, name), pod_security(platform))
        ),
        *team_directory_opener(platform, catalogue),
        *efa_exporter(platform, catalogue),
        *training_runtimes(platform, catalogue),
        *queues(platform, catalogue),
        *kai_queues(platform, catalogue),
        *kai_guard(platform),
        *run_ai_guard(platform),
        *team_directory_guard(platform),
        *space_guard(platform),
        *priority_classes(platform),
        *priority_guard(platform),
        *lustre_storage_class(platform),
        *viewers(),
        *members(platform),
        *node_role_wall(platform),
        *(each for name in names for each in lustre_volumes(platform, name)),
        *(each for name in names for each in claim_templates(platform, catalogue, name)),
        *(
            each
            for team in platform.teams
            for each in (
                *guard_rails(platform, catalogue, team),
                *network_wall(platform, catalogue, team),
                *team_members(platform, team),
                *local_queue(platform, team),
            )
        ),
    ]
