"""Threat: a job has a priority that evicts the pods of other teams, or those of the platform.

Each attempt is an object that a launch renders, to which a class was added. The expressions of the policies run in
another implementation of CEL.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.launch.kubernetes.platforms import hand_off_of, platform_named, request_on
from tests.manifests.platforms import CATALOGUE, objects, platform_of
from tests.seams.kubernetes.definitions import definitions, need_definitions, schema_of
from trainway.launch.kubernetes.options import KINDS, KubernetesOptions
from trainway.launch.kubernetes.render import render_documents
from trainway.manifests.namespace import PART_OF_TRAINWAY
from trainway.manifests.priority_guard import PATHS
from trainway.spec.platform import Platform

Document = dict[str, Any]
CRITICAL = ("system-node-critical", "system-cluster-critical")
# A class of an administrator, which preempts pods of a lower priority.
OTHER = "of-an-administrator"
# What members write that has no pod, and creates none.
WITHOUT_PODS = {"configmaps", "secrets", "pods/portforward", "trainjobs"}


@pytest.fixture(params=["kueue", "kai", "run-ai", "governance"])
def platform(request: pytest.FixtureRequest) -> Platform:
    return platform_named(request.param)


def admits(platform: Platform, resource: str, new: Document, old: Document | None = None) -> bool:
    """Return whether the policies for priorities let a team create an object, or change the object `old` to it."""
    import cel

    operation, bound = "UPDATE" if old else "CREATE", objects(platform, "ValidatingAdmissionPolicyBinding")
    known = {"object": new, "oldObject": old, "request": {"operation": operation, "namespace": "research"}}
    verdicts = []
    for policy in objects(platform, "ValidatingAdmissionPolicy"):
        matched, name = policy["spec"]["matchConstraints"], policy["metadata"]["name"]
        (rule,) = matched["resourceRules"]
        if name.startswith("trainway-priority") and resource in rule["resources"] and operation in rule["operations"]:
            assert matched["namespaceSelector"] == {"matchLabels": PART_OF_TRAINWAY}
            assert name in {each["spec"]["policyName"] for each in bound}
            verdicts += [cel.evaluate(each["expression"], known) for each in policy["spec"]["validations"]]
    assert verdicts and all(type(each) is bool for each in verdicts), f"{resource}: {verdicts}"
    return all(verdicts)


def submitted(platform: Platform) -> Iterator[tuple[str, Document]]:
    """Yield the objects with pods that launches of every kind create, and the resource of each object."""
    hand_off = hand_off_of(platform)
    for kind in KINDS:
        if kind in hand_off.cluster.job_kinds:
            request = request_on(hand_off, **({"run": {"command": ["python", "a.py"]}} if kind == "RayJob" else {}))
            for document in render_documents(request, CATALOGUE, KubernetesOptions(kind=kind)):
                if any(templates_in(document)):
                    yield f"{document['kind'].lower()}s", document


def templates_in(node: Any) -> Iterator[Document]:
    """Yield every pod specification within an object."""
    if isinstance(node, dict) and "containers" in node:
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from templates_in(each)


def attempts(document: Document, name: str) -> Iterator[Document]:
    """Yield copies of an object, in each of which one pod has the class."""
    for index, _ in enumerate(templates_in(document)):
        changed = copy.deepcopy(document)
        list(templates_in(changed))[index]["priorityClassName"] = name
        yield changed


def test_no_job_of_a_team_has_a_priority_of_kubernetes_own(platform: Platform) -> None:
    found = list(submitted(platform))
    assert {"jobsets", "pytorchjobs", "mpijobs", "rayjobs", "trainingruntimes"} - {each for each, _ in found} == set()
    for resource, document in found:
        assert admits(platform, resource, document)
        for name in CRITICAL:
            planted = list(attempts(document, name))
            assert planted and not any(admits(platform, resource, each) for each in planted), f"{resource}: {name}"


def test_no_pod_of_a_team_has_a_priority_of_kubernetes_own(platform: Platform) -> None:
    for name in CRITICAL:
        assert not admits(platform, "pods", {"spec": {"containers": [], "priorityClassName": name}})
    # Kubernetes writes the name of the cluster's default class, which an administrator may have made, into a pod.
    assert admits(platform, "pods", {"spec": {"containers": [], "priorityClassName": OTHER}})
    assert admits(platform, "pods", {"spec": {"containers": []}})


def test_a_job_has_the_classes_of_the_platform_and_no_other(platform: Platform) -> None:
    own = [each["metadata"]["name"] for each in objects(platform, "PriorityClass")]
    job: Document = {"spec": {"template": {"spec": {"containers": []}}}}
    for name in own:
        assert all(admits(platform, "jobs", each) for each in attempts(job, name))
    # Run:ai creates classes of its own, and gives them to jobs.
    assert all(admits(platform, "jobs", each) == platform.run_ai for each in attempts(job, OTHER))
    assert bool(own) == (platform.kai or platform.task_governance)


def test_an_operator_gives_a_job_no_other_class(platform: Platform) -> None:
    jobs = {resource: document for resource, document in submitted(platform) if resource in ("pytorchjobs", "mpijobs")}
    assert len(jobs) == 2
    for resource, document in jobs.items():
        changed = copy.deepcopy(document)
        changed["spec"].setdefault("runPolicy", {})["schedulingPolicy"] = {"priorityClass": CRITICAL[0]}
        assert not admits(platform, resource, changed)


def test_a_ray_cluster_without_a_job_has_no_other_class(platform: Platform) -> None:
    (job,) = (document for resource, document in submitted(platform) if resource == "rayjobs")
    cluster = {"spec": job["spec"]["rayClusterSpec"]}
    assert admits(platform, "rayclusters", cluster)
    assert not any(admits(platform, "rayclusters", each) for each in attempts(cluster, CRITICAL[0]))


def test_a_job_does_not_change_to_another_class_and_one_from_before_can_be_stopped() -> None:
    platform = platform_named("kueue")
    for resource, document in submitted(platform):
        bad = next(attempts(document, CRITICAL[0]))
        stopped = copy.deepcopy(bad)
        stopped["spec"]["suspend"] = True
        assert not admits(platform, resource, bad, document)
        assert admits(platform, resource, stopped, bad)
        assert admits(platform, resource, document, bad)


def test_every_kind_with_pods_that_a_member_creates_is_read(platform: Platform) -> None:
    (role,) = (each for each in objects(platform, "Role") if each["metadata"]["namespace"].endswith("research"))
    created = {
        name for rule in role["rules"] if {"create", "update"} & set(rule["verbs"]) for name in rule["resources"]
    }
    read = {
        resource
        for policy in objects(platform, "ValidatingAdmissionPolicy")
        if policy["metadata"]["name"].startswith("trainway-priority")
        for resource in policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"]
    }
    assert created - WITHOUT_PODS == read - {"pods"}


def test_every_field_of_a_published_definition_that_names_a_class_is_read() -> None:
    need_definitions()
    checked = set()
    for kind in definitions().values():
        plural = kind.name.partition(".")[0]
        if plural in PATHS:
            assert set(fields_of_classes(schema_of(kind), "")) == set(PATHS[plural]), plural
            checked.add(plural)
    assert checked >= {"jobsets", "trainjobs", "trainingruntimes", "pytorchjobs", "mpijobs"}


def fields_of_classes(schema: Document, path: str) -> Iterator[str]:
    """Yield the paths of the fields of a specification that name a PriorityClass."""
    for name, each in schema.get("properties", {}).items():
        if name in ("priorityClass", "priorityClassName"):
            yield f"{path}.{name}".lstrip(".")
        elif (path, name) != ("", "status"):
            yield from fields_of_classes(each, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from fields_of_classes(schema[key], f"{path}{mark}")


def test_without_teams_there_is_no_policy() -> None:
    names = [each["metadata"]["name"] for each in objects(platform_of(teams=[]), "ValidatingAdmissionPolicy")]
    assert not any("priority" in each for each in names)
