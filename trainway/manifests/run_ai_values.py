"""The values of Run:ai's chart that the platform file decides."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform

# The Secret with the cluster's own client secret, which delivery/run_ai.py makes.
CLIENT_SECRET = "trainway-run-ai"


def run_ai_values(platform: Platform) -> dict[str, Any]:
    """Return the values of Run:ai's chart. The stage adds the ID and the URL that the control plane has of the cluster.

    https://docs.nvidia.com/run-ai/self-hosted/documentation/installation-and-configuration/config/advanced-cluster-configuration
    (read 2026-11-27)
    """
    section = platform.installed_run_ai
    if section is None:
        return {}
    values: dict[str, Any] = {
        "controlPlane": {
            "url": section.control_plane.removeprefix("https://"),
            "existingSecret": CLIENT_SECRET,
            "secretKeys": {"clientSecret": "clientSecret"},
        },
        # The namespaces are those of the platform, with its guards. A project finds its own by the label.
        "clusterConfig": {"project-controller": {"createNamespaces": False}},
    }
    if section.registry:
        values["global"] = {"image": {"registry": section.registry}}
    return values
