"""The EKS cluster that a platform creates."""

from __future__ import annotations

from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.eks.eks_cluster import EksCluster
from stacks.constructs.iam.acknowledge import acknowledge, acknowledge_managed_policies
from stacks.constructs.iam.trust import service
from stacks.constructs.retention import goes_with_its_stack, stays
from trainway.spec.observability.log_groups import LOG_DAYS, control_plane_logs
from trainway.spec.platform import Platform
from trainway.spec.sections.endpoint import Endpoint

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


def created_cluster(scope: Construct, *, platform: Platform, subnet_ids: list[str], service_cidr: str) -> EksCluster:
    """Create the cluster, with encrypted secrets, all logs, and access entries only.

    Its endpoint answers inside the VPC, and to the public CIDR blocks of `kubernetes.endpoint` if there are any.
    """
    name = platform.name
    role = _role(scope)
    secrets = kms.Key(
        scope,
        "Secrets",
        description=f"Kubernetes secrets of {name}",
        enable_key_rotation=True,
    )
    cluster = _cluster(scope, platform, role=role, secrets=secrets, subnet_ids=subnet_ids, service_cidr=service_cidr)
    goes_with_its_stack(secrets, cluster)
    cluster.add_resource_dependency(_logs(scope, name))
    if platform.kubernetes_or_default.endpoint:
        acknowledge(
            cluster,
            "The platform file opens the endpoint, to ranges that it lists; IAM authenticates every call.",
            "AwsSolutions-EKS1",
        )
    return EksCluster(
        name=cluster.ref,
        arn=cluster.attr_arn,
        # EKS gives the group all traffic from itself and to itself, as EFA needs. A rule of the stack would be a
        # duplicate, which EC2 refuses. https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
        # (read 2026-11-30)
        security_group_id=cluster.attr_cluster_security_group_id,
        coordinates={
            "name": name,
            "apiServerEndpoint": cluster.attr_endpoint,
            "certificateAuthority": cluster.attr_certificate_authority_data,
            "cidr": service_cidr,
        },
        resource=cluster,
    )


def _role(scope: Construct) -> iam.Role:
    """Create the role with which EKS manages the cluster."""
    role = iam.Role(
        scope,
        "Role",
        assumed_by=service("eks"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
    )
    acknowledge_managed_policies(role, "The policy that EKS requires of a cluster role.", "AmazonEKSClusterPolicy")
    return role


def _cluster(
    scope: Construct,
    platform: Platform,
    *,
    role: iam.Role,
    secrets: kms.Key,
    subnet_ids: list[str],
    service_cidr: str,
) -> eks.CfnCluster:
    """Create the cluster. `secrets` is the key that encrypts Kubernetes secrets."""
    kubernetes = platform.kubernetes_or_default
    return eks.CfnCluster(
        scope,
        "Cluster",
        name=platform.name,
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
        resources_vpc_config=_vpc_config(kubernetes.endpoint, subnet_ids),
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
                enabled_types=[eks.CfnCluster.LoggingTypeConfigProperty(type=kind) for kind in LOG_TYPES]
            )
        ),
        # Always written: EKS deletes a cluster only after an update that has set it to false.
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (read 2026-11-22)
        deletion_protection=platform.deletion_protection,
        # The add-ons below install these three; the cluster's own copies would never be updated.
        bootstrap_self_managed_addons=False,
    )


def _vpc_config(endpoint: Endpoint | None, subnet_ids: list[str]) -> eks.CfnCluster.ResourcesVpcConfigProperty:
    """Return the subnets of the control plane, and who reaches its endpoint.

    An update must name all three properties of the endpoint if the last template did, so every template names them:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-eks-cluster-resourcesvpcconfig.html
    (read 2026-11-22). A private cluster has an empty list: https://github.com/aws/containers-roadmap/issues/2002
    """
    return eks.CfnCluster.ResourcesVpcConfigProperty(
        subnet_ids=subnet_ids,
        endpoint_private_access=True,
        endpoint_public_access=endpoint is not None,
        public_access_cidrs=[str(each) for each in endpoint.public_to] if endpoint else [],
    )


def _logs(scope: Construct, cluster: str) -> logs.CfnLogGroup:
    """Create the group that the control plane logs to. EKS itself would create it without retention.

    Its logs outlive the cluster until they are 90 days old. A later cluster of this name takes up the group. It has no
    key of the stack, without which nobody could read it then.
    https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html (read 2026-11-30)
    """
    group = logs.CfnLogGroup(scope, "Logs", log_group_name=control_plane_logs(cluster), retention_in_days=LOG_DAYS)
    stays(group)
    return group
