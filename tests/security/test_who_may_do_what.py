"""Who may do what in the cluster after a deploy: people do what their part says, and nobody else does anything."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.people import ADMIN
from tests.representatives import with_representatives
from tests.stacks.authorization import Entry, Kubernetes, Request, kubernetes, let_in, rules_of
from tests.synthesis import EXAMPLES, Template, all_resources, templates_of
from trainway.manifests import cluster_manifests
from trainway.manifests.namespace import namespace_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

FILES = {file.stem: file for file in EXAMPLES if "slurm" not in file.stem}
ROLE = "arn:aws:iam::111122223333:role"
PEOPLE = {
    "admin": f"{ROLE}/platform",
    "viewer": f"{ROLE}/on-call",
    "member": f"{ROLE}/research",
    "stranger": f"{ROLE}/deployer",
}
# What each may do. `own` is the namespace of the member's team, `other` that of another team.
TABLE = """
verb         resource                                                  in            admin  viewer  member  stranger
create       trainer.kubeflow.org/trainjobs                            own           yes    no      yes     no
delete       trainer.kubeflow.org/trainjobs                            own           yes    no      yes     no
list         trainer.kubeflow.org/trainjobs                            own           yes    yes     yes     no
create       trainer.kubeflow.org/trainjobs                            other         yes    no      no      no
list         trainer.kubeflow.org/trainjobs                            other         yes    yes     no      no
create       batch/jobs                                                own           yes    no      yes     no
create       batch/jobs                                                kube-system   yes    no      no      no
get          /pods/log                                                 own           yes    yes     yes     no
get          /pods/log                                                 other         yes    yes     no      no
delete       /pods                                                     own           yes    no      yes     no
create       /pods                                                     own           yes    no      no      no
create       /pods/exec                                                own           yes    no      no      no
get          /pods/exec                                                own           yes    no      no      no
create       /pods/portforward                                         own           yes    no      yes     no
get          /secrets                                                  own           yes    no      yes     no
get          /secrets                                                  other         yes    no      no      no
get          /secrets                                                  kube-system   yes    no      no      no
get          /configmaps                                               kube-system   yes    yes     no      no
get          /secrets                                                  -             yes    no      no      no
list         /nodes                                                    -             yes    yes     yes     no
patch        /nodes                                                    -             yes    no      no      no
get          /nodes/proxy                                              -             yes    no      no      no
list         /namespaces                                               -             yes    yes     yes     no
create       /namespaces                                               -             yes    no      no      no
patch        /resourcequotas                                           own           yes    no      no      no
create       /serviceaccounts/token                                    own           yes    no      no      no
get          rbac.authorization.k8s.io/roles                           own           yes    yes     no      no
create       rbac.authorization.k8s.io/rolebindings                    own           yes    no      no      no
create       rbac.authorization.k8s.io/clusterrolebindings             -             yes    no      no      no
escalate     rbac.authorization.k8s.io/clusterroles                    -             yes    no      no      no
impersonate  /groups                                                   -             yes    no      no      no
delete       admissionregistration.k8s.io/validatingadmissionpolicies  -             yes    no      no      no
"""
Objects = list[dict[str, Any]]
Answers = dict[tuple[str, Request], bool]


def expected(platform: Platform) -> Answers:
    """Return the table for a platform: the columns of those whom its file names, and of the stranger."""
    (_, *head), *rows = (line.split() for line in TABLE.strip().splitlines())
    columns = head[2:]
    named = {persona: who for persona, who in PEOPLE.items() if persona == "stranger" or who in str(platform)}
    own, other = (
        [namespace_of(platform, team) for team in platform.teams[:2]] if len(platform.teams) > 1 else ("own", "other")
    )
    where = {"own": own, "other": other, "-": None}
    return {
        (named[column], Request(verb, resource, where.get(place, place))): answer == "yes"
        for verb, resource, place, *cells in rows
        for column, answer in zip(columns, cells, strict=True)
        if column in named
    }


def answers(asked: Answers, stacks: dict[str, Template], objects: Objects, by: Kubernetes) -> Answers:
    """Return what the templates and the objects say to the requests of a table."""
    people, found = let_in(stacks).people, Answers()
    for person in {person for person, _ in asked}:
        for namespace in {request.namespace for _, request in asked}:
            requests = [each for who, each in asked if (who, each.namespace) == (person, namespace)]
            rules = rules_of(people.get(person, Entry()), objects, namespace)
            allowed = by.allowed(rules, requests)
            found |= {(person, each): each in allowed for each in requests}
    return found


@pytest.fixture(scope="module")
def by_kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with kubernetes(tmp_path_factory.mktemp("kubectl")) as api:
        yield api


def rbac(platform: Platform) -> Objects:
    kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    return [each for each in cluster_manifests(platform, load_catalogue()).values() if each.get("kind") in kinds]


@pytest.mark.parametrize("name", with_representatives(["eks-p5", "hyperpod-eks-shared"], ["hyperpod-eks-shared"]))
def test_everybody_may_do_what_their_part_says(name: str, by_kubectl: Kubernetes) -> None:
    """By entries of their own, and, with `iam.persona_roles`, by a role that only they assume."""
    platform = load_platform(FILES[name])
    table = expected(platform)
    assert {person for person, _ in table} == set(PEOPLE.values())
    assert answers(table, templates_of(FILES[name]), rbac(platform), by_kubectl) == table


def test_after_the_first_deploy_the_administrator_of_the_file_may_do_everything_and_nobody_else_anything(
    by_kubectl: Kubernetes,
) -> None:
    platform, stacks = load_platform(FILES["platform"]), templates_of(FILES["platform"])
    assert set(let_in(stacks).people) == {ADMIN}
    table = {
        (who, request): who == ADMIN
        for _, request in expected(load_platform(FILES["eks-p5"]))
        for who in (ADMIN, PEOPLE["stranger"])
    }
    assert answers(table, stacks, rbac(platform), by_kubectl) == table


@pytest.mark.parametrize("name", with_representatives(FILES, ["platform", "hyperpod-eks-shared"]))
def test_nobody_is_let_in_whom_the_file_does_not_name(name: str) -> None:
    """But the delivery, which installs charts by a role that only CodeBuild assumes."""
    platform, stacks = load_platform(FILES[name]), templates_of(FILES[name])
    (cluster,) = all_resources(stacks, "AWS::EKS::Cluster").values()
    # The creator is CloudFormation's execution role: an administrator whom no file names and no person can be.
    assert cluster["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    found = let_in(stacks)
    kubernetes_section = platform.kubernetes_or_default
    members = [member for team in platform.teams for member in team.members]
    assert set(found.people) == {*kubernetes_section.admins, *kubernetes_section.viewers, *members}
    assert {service for service, _ in found.services.values()} == {"codebuild.amazonaws.com"}
    administrators = {who for who, entry in found.people.items() if entry.policies}
    assert administrators == set(kubernetes_section.admins)


def _plant(kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Any, Objects], None]:
    def plant(_stacks: Any, objects: Objects) -> None:
        (found,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
        change(found)

    return plant


def _for_all_namespaces(_stacks: Any, objects: Objects) -> None:
    (role,) = (each for each in objects if each["kind"] == "Role" and each["metadata"]["namespace"] == "research")
    (binding,) = (
        each for each in objects if each["kind"] == "RoleBinding" and each["metadata"]["namespace"] == "research"
    )
    metadata = {"name": "everywhere"}
    reference = {**binding["roleRef"], "kind": "ClusterRole", "name": "everywhere"}
    objects += [
        {**role, "kind": "ClusterRole", "metadata": metadata},
        {**binding, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": reference},
    ]


def _entry_without_groups(stacks: dict[str, Template], _objects: Objects) -> None:
    for each in all_resources(stacks, "AWS::EKS::AccessEntry").values():
        each.pop("KubernetesGroups", None)


def _everybody_administers(stacks: dict[str, Template], _objects: Objects) -> None:
    entries = list(all_resources(stacks, "AWS::EKS::AccessEntry").values())
    policies = next(each["AccessPolicies"] for each in entries if "AccessPolicies" in each)
    for each in entries:
        each["AccessPolicies"] = policies


def _stranger(stacks: dict[str, Template], _objects: Objects) -> None:
    entry = next(iter(all_resources(stacks, "AWS::EKS::AccessEntry").values()))
    stacks["cluster"]["Resources"]["Hidden"] = {
        "Type": "AWS::EKS::AccessEntry",
        "Properties": {**entry, "PrincipalArn": PEOPLE["stranger"], "KubernetesGroups": ["trainway:research"]},
    }


PLANTED: dict[str, Callable[[Any, Objects], None]] = {
    "viewers are in no binding": _plant("ClusterRoleBinding", "trainway-viewer", lambda each: each["subjects"].clear()),
    "viewers read secrets": _plant(
        "ClusterRole", "trainway-viewer", lambda each: each["rules"][0]["resources"].append("secrets")
    ),
    "viewers read everything of a group": _plant(
        "ClusterRole", "trainway-viewer", lambda each: each["rules"][0].update(resources=["*"])
    ),
    "viewers change what they read": _plant(
        "ClusterRole", "trainway-viewer", lambda each: each["rules"][0]["verbs"].append("patch")
    ),
    "members do in all namespaces what they do in their own": _for_all_namespaces,
    "entries have no groups": _entry_without_groups,
    "everybody administers": _everybody_administers,
    "a stranger has an entry": _stranger,
}


@pytest.mark.parametrize("mistake", with_representatives(PLANTED, ["viewers read secrets"]))
def test_a_mistake_changes_an_answer(mistake: str, by_kubectl: Kubernetes) -> None:
    platform, stacks = load_platform(FILES["eks-p5"]), templates_of(FILES["eks-p5"])
    objects, table = copy.deepcopy(rbac(platform)), expected(platform)
    PLANTED[mistake](stacks, objects)
    assert answers(table, stacks, objects, by_kubectl) != table
