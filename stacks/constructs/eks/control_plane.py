"""An EKS control plane with its add-ons, and the nodes for the cluster's own pods."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.eks.adopted_cluster import adopted_cluster
from stacks.constructs.eks.created_cluster import created_cluster
from stacks.constructs.eks.eks_addons import CNI_POLICY, eks_addon
from stacks.constructs.eks.launch_template import system_launch_template
from stacks.constructs.iam.acknowledge import acknowledge_managed_policies
from stacks.constructs.iam.trust import service
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.kai import NOT_FOR_KAI
from trainway.spec.capacity.volumes import SYSTEM_VOLUME_GIB
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.kubernetes.addons import BEFORE_NODES, EXPORTERS, ON_NODES, addon_names
from trainway.spec.kubernetes.ami_releases import SYSTEM_NODES, minor_of
from trainway.spec.kubernetes.node_tags import node_tags
from trainway.spec.platform import Platform
from trainway.spec.sections.tags import OWNER_TAG

CLUSTER_ADMIN = "cluster-access-policy/AmazonEKSClusterAdminPolicy"


class ControlPlane(Construct):
    """A created or adopted cluster with its add-ons, system nodes, access entries, and Pod Identity associations."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        catalogue: Catalogue,
        subnet_ids: list[str],
        service_cidr: str,
    ) -> None:
        super().__init__(scope, id)
        kubernetes = platform.kubernetes_or_default
        self.platform = platform
        adopted = platform.adopted_cluster
        self.cluster = (
            adopted_cluster(self, adopted)
            if adopted
            else created_cluster(self, platform=platform, subnet_ids=subnet_ids, service_cidr=service_cidr)
        )
        missing = addon_names(platform)
        networking = [self._addon(name) for name in BEFORE_NODES if name in missing]
        self.node_role = self._node_role()
        system = self._system_nodes(platform, catalogue[kubernetes.system_nodes.instance_type], subnet_ids)
        for addon in networking:
            system.add_resource_dependency(addon)
        for name_on_nodes in (name for name in (*ON_NODES, *EXPORTERS) if name in missing):
            addon = self._addon(name_on_nodes)
            addon.add_resource_dependency(system)

    def let_in(
        self, scope: Construct, id: str, principal_arn: str, *, groups: Sequence[str] = (), admin: bool = True
    ) -> eks.CfnAccessEntry:
        """Let an IAM role or user administer the cluster, or make it a member of RBAC groups."""
        policy = eks.CfnAccessEntry.AccessPolicyProperty(
            policy_arn=f"arn:{cdk.Aws.PARTITION}:eks::aws:{CLUSTER_ADMIN}",
            access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
        )
        return eks.CfnAccessEntry(
            scope,
            id,
            cluster_name=self.cluster.name,
            principal_arn=principal_arn,
            access_policies=[policy] if admin else None,
            kubernetes_groups=list(groups) or None,
        )

    def pod_identity(
        self, scope: Construct, id: str, *, namespace: str, service_account: str, role: iam.IRole
    ) -> eks.CfnPodIdentityAssociation:
        """Give the pods of a service account an IAM role."""
        return eks.CfnPodIdentityAssociation(
            scope,
            id,
            cluster_name=self.cluster.name,
            namespace=namespace,
            service_account=service_account,
            role_arn=role.role_arn,
        )

    @property
    def owner_tags(self) -> dict[str, str]:
        """Return the tag of node groups in an adopted cluster, by which `trainway adopt` leaves them out."""
        return {OWNER_TAG: self.platform.name} if self.platform.adopted_cluster else {}

    def _addon(self, name: str) -> eks.CfnAddon:
        return eks_addon(self, name, cluster=self.cluster, platform=self.platform)

    def _node_role(self) -> iam.Role:
        policies = [
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonSSMManagedInstanceCore",
            # HyperPod requires it, and an adopted cluster's CNI may have no role of its own.
            *([CNI_POLICY] if self.platform.orchestrator.is_hyperpod or self.platform.adopted_cluster else []),
        ]
        role = iam.Role(
            self,
            "NodeRole",
            assumed_by=service("ec2"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(policy) for policy in policies],
        )
        reason = "The policies that EKS requires of a node role, and SSM's for a shell."
        acknowledge_managed_policies(role, reason, *policies)
        return role

    def _system_nodes(self, platform: Platform, instance: Instance, subnet_ids: list[str]) -> eks.CfnNodegroup:
        nodes = platform.kubernetes_or_default.system_nodes
        template = system_launch_template(
            self,
            "SystemTemplate",
            name=platform.name,
            instance=instance,
            root_volume_gib=SYSTEM_VOLUME_GIB,
            tags=node_tags(platform, SYSTEM_NODES),
        )
        release = platform.lock.ami_releases.get(SYSTEM_NODES)
        return eks.CfnNodegroup(
            self,
            "SystemNodes",
            cluster_name=self.cluster.name,
            node_role=self.node_role.role_arn,
            subnets=subnet_ids,
            instance_types=[nodes.instance_type],
            ami_type="AL2023_x86_64_STANDARD",
            version=minor_of(release) if release else None,
            release_version=release,
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.ref, version=template.attr_latest_version_number
            ),
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
                min_size=nodes.count, desired_size=nodes.count, max_size=nodes.count + 1
            ),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
            tags=self.owner_tags or None,
            labels={NODES_LABEL: "system", **(NOT_FOR_KAI if platform.kai else {})},
        )
