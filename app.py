"""The CDK app: one platform file in, its stacks out."""

import json
import os
import sys
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
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError


def add_stacks(app: cdk.App, platform: Platform) -> None:
    """Each stack is given the ones that it stands on, and none that it could be made beside."""
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
    ImageStack(app, f"{name}-image", foundation=foundation)
    if platform.orchestrator.is_kubernetes:
        control_plane = ControlPlaneStack(app, f"{name}-control-plane", catalogue=catalogue, network=network, **common)
        cluster_stack = HyperPodEksStack if platform.orchestrator.is_hyperpod else EksStack
        cluster = cluster_stack(
            app, f"{name}-cluster", foundation=foundation, control_plane=control_plane.control_plane
        )
        if registry.charts:
            cluster.add_stack_dependency(MirrorStack(app, f"{name}-mirror", foundation=foundation))
    else:
        HyperPodSlurmStack(app, f"{name}-cluster", foundation=foundation)
    ObservabilityStack(app, f"{name}-observability", file_system=file_system, **common)


if __name__ == "__main__":
    # The CDK's command line reads cdk.json in the current directory alone. With a wheel that is another folder.
    settings = json.loads(Path(__file__).with_name("cdk.json").read_text(encoding="utf-8"))
    app = cdk.App(context=settings["context"], analytics_reporting=settings["versionReporting"])
    try:
        add_stacks(app, load_platform(Path(app.node.try_get_context("platform") or "platform.yaml")))
    except SpecError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    app.synth()
