"""Public data of AWS: Kubernetes versions, add-ons, and public parameters. Whoever starts the emulator sets them.

moto has neither DescribeClusterVersions nor DescribeAddonVersions, and refuses parameters below `/aws/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

EVERYWHERE = "*"
# Paths of the operations in EKS's API (botocore 1.44.5).
CLUSTER_VERSIONS, ADDON_VERSIONS = "/cluster-versions", "/addons/supported-versions"


@dataclass
class Publications:
    """EKS's Kubernetes versions and add-ons by Region, with times in seconds since the epoch, and public parameters."""

    by_region: dict[str, dict[str, Any]] = field(default_factory=dict)
    with_parameters: set[str] = field(default_factory=set)

    def publish(self, region: str, what: dict[str, Any]) -> None:
        """Set `cluster_versions`, `addons`, and `parameters` (values by name) of a Region.

        What is published for `EVERYWHERE` holds in each Region that has nothing of its own.
        """
        self.by_region[region] = what
        self.with_parameters.discard(region)

    def put_parameters(self, account: str, region: str) -> None:
        """Put a Region's parameters into moto's Parameter Store, once for each publication."""
        if region not in self.with_parameters:
            self.with_parameters.add(region)
            for name, value in self._of(region).get("parameters", {}).items():
                _put(account, region, name, value)

    def answer(self, region: str, path: str, query: str) -> dict[str, Any] | None:
        """Return EKS's response to a request, or None if moto answers it."""
        if path == CLUSTER_VERSIONS:
            return {"clusterVersions": self._of(region).get("cluster_versions", [])}
        if path == ADDON_VERSIONS:
            asked = parse_qs(query)
            version, name = asked.get("kubernetesVersion", [None])[0], asked.get("addonName", [None])[0]
            return {
                "addons": [
                    addon | {"addonVersions": offered}
                    for addon in self._of(region).get("addons", [])
                    if name in (None, addon["addonName"])
                    and (offered := [each for each in addon["addonVersions"] if _suits(each, version)])
                ]
            }
        return None

    def _of(self, region: str) -> dict[str, Any]:
        return self.by_region.get(region, self.by_region.get(EVERYWHERE, {}))


def _suits(offered: dict[str, Any], version: str | None) -> bool:
    return version is None or any(each["clusterVersion"] == version for each in offered["compatibilities"])


def _put(account: str, region: str, name: str, value: str) -> None:
    from moto.core.utils import utcnow
    from moto.ssm.models import Parameter, ssm_backends

    parameter = Parameter(  # type: ignore[abstract]
        account_id=account,
        name=name,
        value=value,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=utcnow(),
        version=1,
        data_type="text",
    )
    ssm_backends[account][region]._parameters[name].append(parameter)
