"""What AWS publishes for every account: Kubernetes versions, add-ons of EKS, and releases of EKS's AMIs."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.kubernetes.addons import EVERY_ADDON
from trainway.spec.kubernetes.ami_releases import parameter, variant

# AWS's own version numbers are in no table. These have their form, and no deploy gets them from AWS.
ADDON_VERSION = "v1.0.0-eksbuild.1"
RELEASE = "{minor}.0-20260101"


def publications(catalogue: Catalogue, today: date) -> dict[str, Any]:
    """Return what an emulated AWS publishes, as the arguments of `Emulator.publish`.

    Kubernetes versions and the end of their support are those of the published facts. Each add-on and each AMI that a
    platform can have exists in one version, whose number is made up.
    """
    versions = kubernetes_versions().eks.versions
    supported = {minor: support for minor, support in versions.items() if support.extended_until > today}
    compatible = [{"clusterVersion": minor, "defaultVersion": True} for minor in supported]
    variants = {variant(instance): instance for instance in catalogue.values()}
    return {
        "cluster_versions": [
            {
                "clusterVersion": minor,
                "clusterType": "eks",
                "versionStatus": "STANDARD_SUPPORT" if support.standard_until > today else "EXTENDED_SUPPORT",
                "endOfStandardSupportDate": _seconds(support.standard_until),
                "endOfExtendedSupportDate": _seconds(support.extended_until),
            }
            for minor, support in supported.items()
        ],
        "addons": [
            {
                "addonName": name,
                "addonVersions": [{"addonVersion": ADDON_VERSION, "compatibilities": compatible}],
            }
            for name in EVERY_ADDON
        ],
        "parameters": {
            parameter(minor, instance): RELEASE.format(minor=minor)
            for minor in supported
            for instance in variants.values()
        },
    }


def _seconds(day: date) -> float:
    return datetime.combine(day, time(), UTC).timestamp()
