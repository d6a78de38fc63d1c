"""What the platform puts into a Kubernetes cluster: functions of the platform that return plain manifests.

`${TRAINWAY_…}` in a string stands for a fact that exists only once the stack is deployed; the delivery replaces it.
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.chart_values import chart_values
from trainway.manifests.lustre_volume import lustre_volume
from trainway.manifests.namespace import namespaces, team_namespace
from trainway.manifests.training_runtime import training_runtime
from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform

Manifest = dict[str, Any]


def cluster_manifests(platform: Platform, catalogue: Catalogue) -> dict[str, Manifest]:
    """Every file of the delivery's `manifests` directory: `objects/…` to apply, `values/…` for the charts."""
    files = {f"values/{chart}": values for chart, values in chart_values(platform, catalogue).items()}
    objects = [training_runtime()]
    for name in namespaces(platform):
        objects += [*team_namespace(name), *lustre_volume(platform, name)]
    for position, manifest in enumerate(objects):
        # kubectl applies files in the order of their names, and a namespace comes before what is in it.
        kind, name = manifest["kind"].lower(), manifest["metadata"]["name"]
        files[f"objects/{position:03d}-{kind}-{name}"] = manifest
    return files
