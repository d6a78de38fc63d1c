"""The Kubernetes control plane, and the nodes for the cluster's own pods."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.eks.node_scripts import lustre_script
from stacks.foundation.network import NetworkStack
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.storage.lustre_clients import efa_interfaces


class ControlPlaneStack(cdk.Stack):
    """EKS with its add-ons. This stack depends only on the network."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        catalogue: Catalogue,
        network: NetworkStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: EKS control plane")
        if platform.orchestrator is Orchestrator.EKS and efa_interfaces(platform, catalogue):
            lustre_script(self, "LustreOverEfa", platform=platform)
        self.control_plane = ControlPlane(
            self,
            "ControlPlane",
            platform=platform,
            catalogue=catalogue,
            subnet_ids=network.cluster_subnet_ids,
            service_cidr=network.service_cidr,
        )
