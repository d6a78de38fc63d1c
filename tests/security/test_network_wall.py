"""Threat: a pod of another team, or of a stranger, connects to the processes of a run."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.manifests.platforms import objects, platform_of
from tests.seams.kubernetes.pod_security import baseline_violations
from tests.seams.resolved import deployed_of
from tests.seams.shapes import platforms
from tests.security.network_policy import End, connects
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT
from trainway.manifests.namespace import namespace_of, namespaces
from trainway.manifests.network_wall import COLLECTOR_NAMESPACE, HYPERPOD_AGENT_PORT, RAY_DASHBOARD_PORT
from trainway.manifests.team_directory_opener import NAMESPACE as OPENER
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics_ports import RUN_METRICS_PORT
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.network.subnets import SubnetRole
from trainway.spec.platform import Platform

TEAMS = [{"name": "research", "guarantee": {"p5.48xlarge": 2}}, {"name": "guests"}]
EKS: dict[str, Any] = {"teams": TEAMS}
HYPERPOD: dict[str, Any] = {"teams": TEAMS, "orchestrator": "hyperpod-eks"}
# A worker's own ports, which NCCL chooses, and SSH between the pods of an MPIJob.
PORTS = (RENDEZVOUS_PORT, 22, 45678)
METADATA_SERVICE = End(None, "169.254.169.254")
# The agent of EKS Pod Identity, which gives a pod its role, and an address of S3.
ELSEWHERE = (End(None, "169.254.170.23"), End(None, "52.218.128.1"))
DNS = End("kube-system", "172.20.0.10")
# The network interface of the file system, and the service of the Kubernetes API.
LUSTRE, KUBERNETES = End(None, "10.0.4.7"), End(None, "172.20.0.1")


def walls(platform: Platform) -> list[dict[str, Any]]:
    return objects(platform, "NetworkPolicy")


def team(platform: Platform, index: int) -> End:
    return End(namespace_of(platform, platform.teams[index]))


@pytest.mark.parametrize("changes", [EKS, HYPERPOD], ids=["eks", "hyperpod-eks"])
def test_pod_of_another_team_connects_to_no_port_of_a_run(changes: dict[str, Any]) -> None:
    platform = platform_of(**changes)
    policies, mine, theirs = walls(platform), team(platform, 0), team(platform, 1)
    for port in PORTS:
        assert not connects(policies, theirs, mine, port)
        assert not connects(policies, mine, theirs, port)
        assert not connects(policies, End("default"), mine, port)
        assert not connects(policies, End(None, "10.0.9.9"), mine, port)


@pytest.mark.parametrize("changes", [EKS, HYPERPOD], ids=["eks", "hyperpod-eks"])
def test_pods_of_a_team_connect_to_each_other_to_names_and_to_aws(changes: dict[str, Any]) -> None:
    platform = platform_of(**changes)
    policies, mine = walls(platform), team(platform, 0)
    assert all(connects(policies, mine, mine, port) for port in PORTS)
    assert connects(policies, mine, DNS, 53)
    assert all(connects(policies, mine, where, 443) for where in ELSEWHERE)


def test_every_namespace_of_a_team_has_a_wall_around_all_of_its_pods() -> None:
    platform = platform_of(**EKS)
    assert {each["metadata"]["namespace"] for each in walls(platform)} == {"research", "guests"}
    assert all(each["spec"]["podSelector"] == {} for each in walls(platform))
    assert walls(platform_of(teams=[])) == []


def test_operators_reach_the_port_that_they_call_and_no_other() -> None:
    ray = platform_of(**EKS, kubernetes={"ray_operator": True})
    agent = platform_of(**HYPERPOD, hyperpod={"training_operator": True})
    collected = platform_of(**HYPERPOD, hyperpod={"observability": True})
    for platform, caller, port in (
        (ray, End("kuberay-system"), RAY_DASHBOARD_PORT),
        (agent, End("aws-hyperpod"), HYPERPOD_AGENT_PORT),
        (collected, End(COLLECTOR_NAMESPACE), RUN_METRICS_PORT),
    ):
        mine = team(platform, 0)
        assert connects(walls(platform), caller, mine, port)
        assert not connects(walls(platform), caller, mine, RENDEZVOUS_PORT)
        assert not connects(walls(platform), team(platform, 1), mine, port)
        assert not connects(walls(platform_of(**EKS)), caller, team(platform_of(**EKS), 0), port)


def test_a_managed_collector_reaches_the_metrics_of_runs_from_the_cluster_subnets_and_no_other_port() -> None:
    """The pods of node groups are in subnets of their own, so those of another team do not reach the metrics."""
    platform = platform_of(**EKS, kubernetes={"observability": True})
    mine, plan = team(platform, 0), plan_addresses(platform, load_catalogue())
    for subnet in plan.of_role(SubnetRole.CLUSTER):
        collector = End(None, str(subnet.cidr[9]))
        assert connects(walls(platform), collector, mine, RUN_METRICS_PORT)
        assert not connects(walls(platform), collector, mine, RENDEZVOUS_PORT)
    for subnet in plan.of_role(SubnetRole.NODES):
        theirs = End(namespace_of(platform, platform.teams[1]), str(subnet.cidr[9]))
        assert not connects(walls(platform), theirs, mine, RUN_METRICS_PORT)


def test_pod_on_hyperpod_does_not_reach_the_role_of_its_node() -> None:
    platform = platform_of(**HYPERPOD)
    assert not connects(walls(platform), team(platform, 0), METADATA_SERVICE, 80)


@pytest.mark.parametrize("changes", [{}, {"hyperpod": {"training_operator": True, "observability": True}}])
def test_pod_of_a_hyperpod_platform_without_teams_does_not_reach_the_role_of_its_node(changes: dict[str, Any]) -> None:
    platform = platform_of(orchestrator="hyperpod-eks", teams=[], **changes)
    (namespace,) = namespaces(platform)
    policies, mine = walls(platform), End(namespace)
    assert not connects(policies, mine, METADATA_SERVICE, 80)
    # The rest is as without a policy: other ranks, names, AWS, files, the Kubernetes API, and whoever calls a pod.
    for port in PORTS:
        assert connects(policies, mine, mine, port)
        assert connects(policies, End("monitoring"), mine, port)
        assert connects(policies, End(None, "10.0.9.9"), mine, port)
    assert connects(policies, mine, DNS, 53)
    assert all(connects(policies, mine, where, 443) for where in ELSEWHERE)
    assert connects(policies, mine, LUSTRE, 988) and connects(policies, mine, KUBERNETES, 443)
    assert connects(policies, mine, End("monitoring"), 9090)


def test_on_eks_the_hop_limit_does_it_and_a_platform_without_teams_has_no_policy() -> None:
    assert walls(platform_of(orchestrator="eks", teams=[])) == []


@pytest.mark.parametrize("name", ["platform", "hyperpod-eks-shared", "closed-hyperpod-eks"])
def test_the_cni_enforces_the_policies_of_a_platform_that_has_any(name: str) -> None:
    (cni,) = (each for each in deployed_of(name).of_type("AWS::EKS::Addon").values() if each["AddonName"] == "vpc-cni")
    enforced = json.loads(cni["ConfigurationValues"]).get("enableNetworkPolicy") == "true"
    assert enforced == bool(walls(platforms()[name])) == (name != "platform")


def test_namespace_refuses_pods_to_which_no_policy_applies() -> None:
    """A pod in the network of its node has no wall, and a team's namespace refuses it."""
    container = {"name": "main", "image": "image"}
    spec = {"containers": [container]}
    assert baseline_violations({"spec": spec}) == []
    assert baseline_violations({"spec": {**spec, "hostNetwork": True}}) != []
    enforced = {
        each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for each in objects(platform_of(**EKS), "Namespace")
        if each["metadata"]["name"] != OPENER
    }
    # What `baseline` refuses, `restricted` refuses, too.
    assert enforced and enforced <= {"baseline", "restricted"}


def _from_every_namespace(spec: dict[str, Any]) -> None:
    spec["ingress"][0]["from"][0]["namespaceSelector"] = {}


def _from_anywhere(spec: dict[str, Any]) -> None:
    spec["ingress"].append({})


def _for_some_pods(spec: dict[str, Any]) -> None:
    spec["podSelector"] = {"matchLabels": {"app": "training"}}


def _without_ingress(spec: dict[str, Any]) -> None:
    spec["policyTypes"].remove("Ingress")


@pytest.mark.parametrize("mistake", [_from_every_namespace, _from_anywhere, _for_some_pods, _without_ingress])
def test_a_mistake_lets_another_team_in(mistake: Any) -> None:
    platform = platform_of(**HYPERPOD)
    policies = copy.deepcopy(walls(platform))
    for each in policies:
        mistake(each["spec"])
    assert connects(policies, team(platform, 1), team(platform, 0), RENDEZVOUS_PORT)


@pytest.mark.parametrize("teams", [TEAMS, []], ids=["teams", "no teams"])
def test_the_metadata_service_is_reached_without_the_exception(teams: list[dict[str, Any]]) -> None:
    platform = platform_of(**HYPERPOD | {"teams": teams})
    policies, mine = copy.deepcopy(walls(platform)), End(namespaces(platform)[0])
    assert not connects(policies, mine, METADATA_SERVICE, 80)
    for each in policies:
        del each["spec"]["egress"][0]["to"][0]["ipBlock"]["except"]
    assert connects(policies, mine, METADATA_SERVICE, 80)
