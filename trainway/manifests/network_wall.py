"""The NetworkPolicy of each namespace of jobs.

That of a team keeps the pods of other teams from connecting to the team's pods. The processes of a job trust whoever
connects to them: the store of a rendezvous, for example, unpickles what it reads. On HyperPod, each namespace of jobs
has a policy that keeps pods from the role of their node.

The VPC CNI enforces the policies. They apply to pods that have an owner, and all pods that members can create have one.
They do not apply to EFA traffic, which bypasses the network stack of the node. A pod starts without them.

https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html (read 2026-11-24)
https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html (Step 1, read 2026-11-29)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.namespace import namespace_of, namespaces
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics_ports import RUN_METRICS_PORT
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.network.subnets import SubnetRole
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team

NAME = "team-wall"
NODE_ROLE_WALL = "node-role-wall"
# The instance metadata service, which has the credentials of the node's role.
METADATA_SERVICE = "169.254.169.254/32"
# Kubernetes gives every namespace this label, with the namespace's name.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
# The namespace of the collector of HyperPod's observability add-on.
COLLECTOR_NAMESPACE = "hyperpod-observability"
RAY_DASHBOARD_PORT = 8265
HYPERPOD_AGENT_PORT = 8080


def network_wall(platform: Platform, catalogue: Catalogue, team: Team) -> list[dict[str, Any]]:
    """Return the NetworkPolicy of one team's namespace.

    Pods accept connections from pods of the namespace, and from the operators of the platform that call them. A
    forwarded port does not pass the policy, because the node connects to it inside the pod.
    """
    spec: dict[str, Any] = {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}, *_operators(platform), *_collectors(platform, catalogue)],
    }
    if platform.orchestrator.is_hyperpod:
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": _but_the_metadata_service()}
    return [_policy(NAME, namespace_of(platform, team), spec)]


def node_role_wall(platform: Platform) -> list[dict[str, Any]]:
    """Return the NetworkPolicy of the only namespace of a HyperPod platform without teams, or an empty list.

    Pods of everybody still connect to the pods of the namespace.
    """
    if platform.teams or not platform.orchestrator.is_hyperpod:
        return []
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": _but_the_metadata_service()}
    return [_policy(NODE_ROLE_WALL, namespace, spec) for namespace in namespaces(platform)]


def has_network_policies(platform: Platform) -> bool:
    """Return whether the CNI must enforce network policies for the namespaces of jobs."""
    return bool(platform.teams) or platform.orchestrator.is_hyperpod


def _but_the_metadata_service() -> list[dict[str, Any]]:
    """Return egress rules that allow every address except that of the metadata service.

    On nodes of EKS, the hop limit of the launch template keeps pods from the service. A HyperPod instance group has no
    such setting. The agent of EKS Pod Identity, which gives a pod its role, has another address.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html (both read 2026-11-29)
    """
    return [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [METADATA_SERVICE]}}]}]


def _policy(name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _operators(platform: Platform) -> list[dict[str, Any]]:
    """Return the rules for operators that connect to pods of jobs. The others only call the Kubernetes API.

    KubeRay asks the dashboard of a Ray cluster for the state of the job. HyperPod's training operator calls the agent
    that starts the ranks.

    https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/utils/constant.go
    https://pypi.org/project/hyperpod-elastic-agent (both read 2026-11-24)
    """
    found = []
    if platform.kubernetes_or_default.ray_operator:
        found.append(_from_namespace("kuberay-system", RAY_DASHBOARD_PORT))
    if platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.training_operator:
        found.append(_from_namespace("aws-hyperpod", HYPERPOD_AGENT_PORT))
    return found


def _collectors(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the rule for what reads the metrics of runs. An AWS managed collector connects from the cluster subnets.

    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-collector.html (read 2026-11-27)
    """
    match collector_of(platform):
        case Collector.HYPERPOD_ADDON:
            return [_from_namespace(COLLECTOR_NAMESPACE, RUN_METRICS_PORT)]
        case Collector.AWS_MANAGED:
            subnets = plan_addresses(platform, catalogue).of_role(SubnetRole.CLUSTER)
            blocks = [{"ipBlock": {"cidr": str(each.cidr)}} for each in subnets]
            return [{"from": blocks, "ports": [{"protocol": "TCP", "port": RUN_METRICS_PORT}]}]
        case Collector.AGENT | None:
            return []


def _from_namespace(name: str, port: int) -> dict[str, Any]:
    return {
        "from": [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }
