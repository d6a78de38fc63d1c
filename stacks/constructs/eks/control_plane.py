"""An EKS control plane with its add-ons, and the nodes for the cluster's own pods."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.constructs.eks.eks_addons import CNI_POLICY, eks_addon
from stacks.constructs.eks.launch_template import system_launch_template
from stacks.constructs.iam.acknowledge import acknowledge, acknowledge_managed_policies
from stacks.constructs.iam.trust import service
from stacks.constructs.network.node_security_groups import allow_itself
from stacks.constructs.retention import goes_with_its_stack
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.kai import NOT_FOR_KAI
from trainway.spec.derived.addons import BEFORE_NODES, ON_NODES
from trainway.spec.derived.ami_releases import SYSTEM_NODES, minor_of
from trainway.spec.derived.node_tags import node_tags
from trainway.spec.derived.volumes import SYSTEM_VOLUME_GIB
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform

CLUSTER_ADMIN = "cluster-access-policy/AmazonEKSClusterAdminPolicy"


class ControlPlane(Construct):
    """The cluster, with encrypted secrets, all logs, and access entries only.

    Its endpoint answers inside the VPC, and to the public CIDR blocks of `kubernetes.endpoint` if there are any.
    """

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
        name, kubernetes = platform.name, platform.kubernetes_or_default
        endpoint = kubernetes.endpoint
        self.name = name
        self._platform = platform
        role = iam.Role(
            self,
            "Role",
            assumed_by=service("eks"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
        )
        acknowledge_managed_policies(role, "The policy that EKS requires of a cluster role.", "AmazonEKSClusterPolicy")
        secrets = kms.Key(
            self,
            "Secrets",
            description=f"Kubernetes secrets of {name}",
            enable_key_rotation=True,
        )
        self.cluster = eks.CfnCluster(
            self,
            "Cluster",
            name=name,
            version=kubernetes.version,
            # EKS's default is extended support, at an additional cost per hour. With this policy it upgrades the
            # control plane when standard support ends.
            # https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html (read 2026-11-22)
            upgrade_policy=eks.CfnCluster.UpgradePolicyProperty(support_type="STANDARD"),
            # Always written, because EKS keeps a tier, and its price, that the template no longer names. "standard"
            # ends a tier. The change is in place.
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-eks-cluster-controlplanescalingconfig.html
            # (read 2026-11-22)
            control_plane_scaling_config=eks.CfnCluster.ControlPlaneScalingConfigProperty(
                tier=kubernetes.control_plane.tier
            )
            if kubernetes.control_plane
            else None,
            role_arn=role.role_arn,
            # An update must name all three if the last template did, so every template names them:
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-eks-cluster-resourcesvpcconfig.html
            # (read 2026-11-22). A private cluster has an empty list:
            # https://github.com/aws/containers-roadmap/issues/2002
            resources_vpc_config=eks.CfnCluster.ResourcesVpcConfigProperty(
                subnet_ids=subnet_ids,
                endpoint_private_access=True,
                endpoint_public_access=endpoint is not None,
                public_access_cidrs=[str(each) for each in endpoint.public_to] if endpoint else [],
            ),
            kubernetes_network_config=eks.CfnCluster.KubernetesNetworkConfigProperty(service_ipv4_cidr=service_cidr),
            access_config=eks.CfnCluster.AccessConfigProperty(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            encryption_config=[
                eks.CfnCluster.EncryptionConfigProperty(
                    provider=eks.CfnCluster.ProviderProperty(key_arn=secrets.key_arn), resources=["secrets"]
                )
            ],
            logging=eks.CfnCluster.LoggingProperty(
                cluster_logging=eks.CfnCluster.ClusterLoggingProperty(
                    enabled_types=[
                        eks.CfnCluster.LoggingTypeConfigProperty(type=kind)
                        for kind in ("api", "audit", "authenticator", "controllerManager", "scheduler")
                    ]
                )
            ),
            # Always written: EKS deletes a cluster only after an update that has set it to false.
            # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (read 2026-11-22)
            deletion_protection=platform.deletion_protection,
            # The add-ons below install these three; the cluster's own copies would never be updated.
            bootstrap_self_managed_addons=False,
        )
        goes_with_its_stack(secrets, self.cluster)
        if endpoint:
            acknowledge(
                self.cluster,
                "The platform file opens the endpoint, to ranges that it lists; IAM authenticates every call.",
                "AwsSolutions-EKS1",
            )
        self.coordinates = {
            "name": name,
            "apiServerEndpoint": self.cluster.attr_endpoint,
            "certificateAuthority": self.cluster.attr_certificate_authority_data,
            "cidr": service_cidr,
        }
        self.security_group_id = self.cluster.attr_cluster_security_group_id
        # EKS's security group allows egress to 0.0.0.0/0, which does not count for EFA. Its ingress from itself exists.
        allow_itself(self.cluster, self.security_group_id, ingress=False)
        networking = [self._addon(name) for name in BEFORE_NODES]
        self.node_role = self._node_role()
        system = self._system_nodes(platform, catalogue[kubernetes.system_nodes.instance_type], subnet_ids)
        for addon in networking:
            system.add_resource_dependency(addon)
        for name_on_nodes in ON_NODES:
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
            cluster_name=self.cluster.ref,
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
            cluster_name=self.cluster.ref,
            namespace=namespace,
            service_account=service_account,
            role_arn=role.role_arn,
        )

    def _addon(self, name: str) -> eks.CfnAddon:
        return eks_addon(self, name, cluster=self.cluster, platform=self._platform)

    def _node_role(self) -> iam.Role:
        policies = [
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonSSMManagedInstanceCore",
            *([CNI_POLICY] if self._platform.orchestrator.is_hyperpod else []),
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
            name=self.name,
            instance=instance,
            root_volume_gib=SYSTEM_VOLUME_GIB,
            tags=node_tags(platform, SYSTEM_NODES),
        )
        release = platform.lock.ami_releases.get(SYSTEM_NODES)
        return eks.CfnNodegroup(
            self,
            "SystemNodes",
            cluster_name=self.cluster.ref,
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
            labels={NODES_LABEL: "system", **(NOT_FOR_KAI if platform.kai else {})},
        )
