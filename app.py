"""The CDK app: one platform file in, its stacks out."""

import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.bundle import make_bundle
from stacks.eks import EksStack
from stacks.foundation import Foundation
from stacks.hyperpod_eks import HyperPodEksStack
from stacks.hyperpod_slurm import HyperPodSlurmStack
from stacks.image import ImageStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.storage import StorageStack
from trainway.manifests import cluster_manifests
from trainway.spec.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError
from trainway.spec.sections.orchestrator import Orchestrator

CLUSTERS = {
    Orchestrator.EKS: EksStack,
    Orchestrator.HYPERPOD_EKS: HyperPodEksStack,
    Orchestrator.HYPERPOD_SLURM: HyperPodSlurmStack,
}


def add_stacks(app: cdk.App, platform: Platform) -> None:
    """Network → storage → image → cluster → observability, each given the ones it stands on."""
    if platform.iam.permissions_boundary:
        boundary = iam.ManagedPolicy.from_managed_policy_arn(app, "Boundary", platform.iam.permissions_boundary)
        iam.PermissionsBoundary.of(app).apply(boundary)
    name, env, catalogue = platform.name, cdk.Environment(region=platform.region), load_catalogue()
    manifests = cluster_manifests(platform, catalogue)
    bundle = make_bundle(Path(app.outdir) / "bundle", manifests)
    network = NetworkStack(app, f"{name}-network", platform=platform, catalogue=catalogue, env=env)
    storage = StorageStack(app, f"{name}-storage", platform=platform, network=network, env=env)
    image = ImageStack(
        app,
        f"{name}-image",
        platform=platform,
        catalogue=catalogue,
        bundle=bundle,
        network=network,
        storage=storage,
        env=env,
    )
    foundation = Foundation(platform, catalogue, bundle, network, storage, image, env)
    CLUSTERS[platform.orchestrator](app, f"{name}-cluster", foundation=foundation)
    ObservabilityStack(app, f"{name}-observability", platform=platform, storage=storage, env=env)


if __name__ == "__main__":
    app = cdk.App()
    try:
        add_stacks(app, load_platform(Path(app.node.try_get_context("platform") or "platform.yaml")))
    except SpecError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    app.synth()
