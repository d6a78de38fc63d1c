"""The stacks of a platform and their dependencies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker

from stacks.clusters.control_plane import ControlPlaneStack
from stacks.clusters.eks import EksStack
from stacks.clusters.hyperpod_eks import HyperPodEksStack
from stacks.clusters.hyperpod_slurm import HyperPodSlurmStack
from stacks.constructs.delivery.bundle import platform_bundles
from stacks.constructs.delivery.image_settings import after_the_same_base
from stacks.constructs.iam.bucket_key import let_use_bucket_key
from stacks.constructs.lint import pass_over
from stacks.constructs.tags import tag_everything
from stacks.foundation import Foundation
from stacks.foundation.file_system import FileSystemStack
from stacks.foundation.network import NetworkStack
from stacks.foundation.registry import RegistryStack
from stacks.foundation.storage import StorageStack
from stacks.image import ImageStack
from stacks.mirror import MirrorStack
from stacks.observability import ObservabilityStack
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.deployment.published_lists import ignored_checks
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform

Resource = TypeVar("Resource", bound=cdk.CfnResource)


@dataclass(frozen=True)
class NodeGroupResources:
    """The resources of a node group: `resource` is its EKS node group, or the HyperPod cluster that it is a part of."""

    resource: eks.CfnNodegroup | sagemaker.CfnCluster
    # The path of the group's properties in the resource, ending with a dot.
    prefix: str = ""

    def override(self, path: str, value: Any) -> None:
        """Set a property of the group: `path` is as in CloudFormation, for example `ScalingConfig.MaxSize`."""
        self.resource.add_property_override(f"{self.prefix}{path}", value)

    @property
    def launch_template(self) -> ec2.CfnLaunchTemplate:
        """Return the EC2 launch template of the group's nodes.

        Raises LookupError for a group of HyperPod, which has none.
        """
        if isinstance(self.resource, eks.CfnNodegroup):
            stack = cdk.Stack.of(self.resource)
            specification = cast(eks.CfnNodegroup.LaunchTemplateSpecificationProperty, self.resource.launch_template)
            for template in _all(stack, ec2.CfnLaunchTemplate):
                if stack.resolve(template.ref) == stack.resolve(specification.id):
                    return template
        raise LookupError("HyperPod starts the nodes of this group, without a launch template")


@dataclass(frozen=True)
class PlatformStacks:
    """The stacks of a platform by purpose, and the resources in them that an extension changes most often.

    None means that the platform does not have the stack. These names stay when constructs move.
    """

    network: NetworkStack
    storage: StorageStack
    file_system: FileSystemStack
    registry: RegistryStack
    image: ImageStack
    control_plane: ControlPlaneStack | None
    mirror: MirrorStack | None
    cluster: EksStack | HyperPodEksStack | HyperPodSlurmStack
    observability: ObservabilityStack

    @property
    def bucket(self) -> s3.CfnBucket:
        """Return the data bucket."""
        return cast(s3.CfnBucket, self.storage.bucket.node.default_child)

    @property
    def lustre(self) -> fsx.CfnFileSystem | None:
        """Return the Lustre file system that jobs use, or None if the platform creates none."""
        return self.file_system.lustre.resource if self.file_system.lustre else None

    @property
    def eks_cluster(self) -> eks.CfnCluster | None:
        """Return the EKS cluster that the platform creates. None under Slurm, and on an adopted cluster."""
        return self.control_plane.control_plane.cluster.resource if self.control_plane else None

    @property
    def hyperpod_cluster(self) -> sagemaker.CfnCluster | None:
        """Return the HyperPod cluster, or None if EKS itself manages the nodes."""
        return next(_all(self.cluster, sagemaker.CfnCluster), None)

    def group(self, name: str) -> NodeGroupResources:
        """Return the resources of a node group of the platform file. Raises LookupError for an unknown name."""
        if hyperpod := self.hyperpod_cluster:
            for number, group in enumerate(self.cluster.resolve(hyperpod.instance_groups)):
                if group["instanceGroupName"] == name:
                    return NodeGroupResources(hyperpod, f"InstanceGroups.{number}.")
        for nodes in _all(self.cluster, eks.CfnNodegroup):
            if self.cluster.resolve(nodes.labels)[NODES_LABEL] == name:
                return NodeGroupResources(nodes)
        raise LookupError(f"the cluster has no node group of the name {name}")


def _all(stack: cdk.Stack, kind: type[Resource]) -> Iterator[Resource]:
    """Yield the resources of a type in a stack."""
    return (each for each in stack.node.find_all() if isinstance(each, kind))


def add_stacks(app: cdk.App, platform: Platform) -> PlatformStacks:
    """Add the platform's stacks to an app. Each receives only the stacks that it depends on."""
    if platform.iam.permissions_boundary:
        boundary = iam.ManagedPolicy.from_managed_policy_arn(app, "Boundary", platform.iam.permissions_boundary)
        iam.PermissionsBoundary.of(app).apply(boundary)
    foundation = _foundation(app, platform)
    name, registry = platform.name, foundation.registry
    common: dict[str, Any] = {"platform": platform, "env": foundation.env, "catalogue": foundation.catalogue}
    images = _images(app, foundation)
    observability = ObservabilityStack(
        app,
        f"{name}-observability",
        storage=foundation.storage,
        file_system=foundation.file_system,
        nat_gateway_id=foundation.network.nat_gateway_id,
        images=registry.images,
        **common,
    )
    control_plane, mirror = None, None
    cluster: EksStack | HyperPodEksStack | HyperPodSlurmStack
    if platform.orchestrator.is_kubernetes:
        control_plane = ControlPlaneStack(app, f"{name}-control-plane", network=foundation.network, **common)
        of_cluster: dict[str, Any] = {
            "foundation": foundation,
            "control_plane": control_plane.control_plane,
            "alarms_topic": observability.topic_arn,
        }
        kind = HyperPodEksStack if platform.orchestrator.is_hyperpod else EksStack
        cluster = kind(app, f"{name}-cluster", **of_cluster)
        if registry.charts:
            mirror = MirrorStack(app, f"{name}-mirror", foundation=foundation)
            mirror.add_stack_dependency(registry)
            cluster.add_stack_dependency(mirror)
    else:
        cluster = HyperPodSlurmStack(
            app, f"{name}-cluster", foundation=foundation, alarms_topic=observability.topic_arn
        )
    _apply_to_all(app, platform)
    return PlatformStacks(
        network=foundation.network,
        storage=foundation.storage,
        file_system=foundation.file_system,
        registry=registry,
        image=images[DEFAULT_IMAGE],
        control_plane=control_plane,
        mirror=mirror,
        cluster=cluster,
        observability=observability,
    )


def _foundation(app: cdk.App, platform: Platform) -> Foundation:
    """Add the stacks that every cluster depends on."""
    name, catalogue, env = platform.name, load_catalogue(), cdk.Environment(region=platform.region)
    bundles = platform_bundles(Path(app.outdir) / "bundles", platform, catalogue)
    common: dict[str, Any] = {"platform": platform, "env": env}
    network = NetworkStack(app, f"{name}-network", catalogue=catalogue, **common)
    # The CDK's command line sets the account of the credentials. Without credentials, the template suits any account.
    account = os.environ.get("CDK_DEFAULT_ACCOUNT")
    storage = StorageStack(app, f"{name}-storage", account=account, **common)
    file_system = FileSystemStack(
        app, f"{name}-file-system", network=network, storage=storage, bundles=bundles, **common
    )
    registry = RegistryStack(app, f"{name}-registry", catalogue=catalogue, bundles=bundles, storage=storage, **common)
    return Foundation(platform, catalogue, env, bundles, network, storage, file_system, registry)


def _images(app: cdk.App, foundation: Foundation) -> dict[str, ImageStack]:
    """Add the stack of each image of the platform. Return them by the image's name."""
    registry = foundation.registry
    images = {each: ImageStack(app, foundation=foundation, image=each) for each in foundation.platform.image_names}
    for each in images.values():
        # Its stages push to the repository of the bases, which they know by its name.
        each.add_stack_dependency(registry)
    for later, earlier in after_the_same_base(registry.images):
        # One pipeline builds the base, and the other one finds it.
        images[later].add_stack_dependency(images[earlier])
    return images


def _apply_to_all(app: cdk.App, platform: Platform) -> None:
    """Apply the platform's tags, ignored checks, bucket key, and deletion protection to all stacks of the app."""
    tag_everything(app, platform)
    pass_over(app, ignored_checks(platform))
    if key := platform.storage.bucket.key:
        let_use_bucket_key(app, key)
    for stack in app.node.children:
        if isinstance(stack, cdk.Stack):
            # A destroy fails at its first stack, before anything is deleted.
            stack.termination_protection = platform.deletion_protection
