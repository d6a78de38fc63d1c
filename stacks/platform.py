"""The stacks of a platform: which there are, and what each stands on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.clusters.control_plane import ControlPlaneStack
from stacks.clusters.eks import EksStack
from stacks.clusters.hyperpod_eks import HyperPodEksStack
from stacks.clusters.hyperpod_slurm import HyperPodSlurmStack
from stacks.constructs.delivery.bundle import platform_bundles
from stacks.foundation import Foundation
from stacks.foundation.file_system import FileSystemStack
from stacks.foundation.network import NetworkStack
from stacks.foundation.registry import RegistryStack
from stacks.foundation.storage import StorageStack
from stacks.image import ImageStack
from stacks.mirror import MirrorStack
from stacks.observability import ObservabilityStack
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class PlatformStacks:
    """The stacks of a platform by what they are for. None stands for one that the platform does without."""

    network: NetworkStack
    storage: StorageStack
    file_system: FileSystemStack
    registry: RegistryStack
    image: ImageStack
    control_plane: ControlPlaneStack | None
    mirror: MirrorStack | None
    cluster: EksStack | HyperPodEksStack | HyperPodSlurmStack
    observability: ObservabilityStack


def add_stacks(app: cdk.App, platform: Platform) -> PlatformStacks:
    """Add the platform's stacks to an app. Each is given those that it stands on, and none that could be beside it."""
    if platform.iam.permissions_boundary:
        boundary = iam.ManagedPolicy.from_managed_policy_arn(app, "Boundary", platform.iam.permissions_boundary)
        iam.PermissionsBoundary.of(app).apply(boundary)
    name, catalogue = platform.name, load_catalogue()
    bundles = platform_bundles(Path(app.outdir) / "bundles", platform, catalogue)
    env = cdk.Environment(region=platform.region)
    common: dict[str, Any] = {"platform": platform, "env": env}
    network = NetworkStack(app, f"{name}-network", catalogue=catalogue, **common)
    # The CDK's command line says whose credentials it has; without any, the template is for whoever deploys it.
    account = os.environ.get("CDK_DEFAULT_ACCOUNT")
    storage = StorageStack(app, f"{name}-storage", account=account, **common)
    file_system = FileSystemStack(
        app, f"{name}-file-system", network=network, storage=storage, bundles=bundles, **common
    )
    registry = RegistryStack(app, f"{name}-registry", catalogue=catalogue, bundles=bundles, storage=storage, **common)
    foundation = Foundation(platform, catalogue, env, bundles, network, storage, file_system, registry)
    image = ImageStack(app, f"{name}-image", foundation=foundation)
    control_plane, mirror = None, None
    cluster: EksStack | HyperPodEksStack | HyperPodSlurmStack
    if platform.orchestrator.is_kubernetes:
        control_plane = ControlPlaneStack(app, f"{name}-control-plane", catalogue=catalogue, network=network, **common)
        cluster_stack = HyperPodEksStack if platform.orchestrator.is_hyperpod else EksStack
        cluster = cluster_stack(
            app, f"{name}-cluster", foundation=foundation, control_plane=control_plane.control_plane
        )
        if registry.charts:
            mirror = MirrorStack(app, f"{name}-mirror", foundation=foundation)
            cluster.add_stack_dependency(mirror)
    else:
        cluster = HyperPodSlurmStack(app, f"{name}-cluster", foundation=foundation)
    observability = ObservabilityStack(app, f"{name}-observability", file_system=file_system, **common)
    return PlatformStacks(
        network=network,
        storage=storage,
        file_system=file_system,
        registry=registry,
        image=image,
        control_plane=control_plane,
        mirror=mirror,
        cluster=cluster,
        observability=observability,
    )
