"""Every Kubernetes object that Trainway renders is accepted by the definition of its kind, read whole and strictly.

Its seams are those of what a deploy applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.representatives import representatives_and_every, with_representatives
from tests.seams.kubernetes import cel_rules, reader
from tests.seams.kubernetes.definitions import data, definitions, need_definitions
from tests.seams.kubernetes.planted import NO_API_SERVER, drop, planted_in, pod_planted, put, twice
from tests.seams.kubernetes.pod_security import baseline_violations, restricted_violations
from tests.seams.kubernetes.rendered import (
    PLURALS,
    Document,
    delivered,
    every_platform,
    exported,
    launches,
    submitted,
)
from tests.seams.kubernetes.rules import cannot_be_evaluated, rules
from tests.seams.kubernetes.run_files import missing_files
from tests.seams.seam import Seam
from trainway.launch.kubernetes import KINDS
from trainway.manifests.efa_exporter import NAMESPACE
from trainway.manifests.team_directory_opener import NAMESPACE as OPENER

NOT_JOBS = {each.kind for each in definitions().values()} - set(PLURALS)
PLATFORMS = tuple(sorted(every_platform()))
REPRESENTATIVES = ("eks-p5", "hyperpod-eks-shared", "launches with kueue", "launches with run-ai")


@pytest.fixture(scope="module", autouse=True)
def _definitions() -> None:
    need_definitions()


def every_object(name: str) -> list[Document]:
    return [*delivered(name), *exported(name), *submitted(name)]


def refusals(documents: Sequence[Document], platform: str) -> list[str]:
    version = every_platform()[platform].kubernetes_or_default.version
    return [refusal for each in documents for refusal in reader.read(each, version)]


@pytest.mark.parametrize("names", representatives_and_every(PLATFORMS, REPRESENTATIVES))
def test_every_object_of_every_platform_is_accepted(names: tuple[str, ...]) -> None:
    """Examples and shapes, what is delivered and what is launched, in one count."""
    reader.READ.clear()
    cel_rules.EVALUATED.clear()
    every = {name: every_object(name) for name in names}
    documents = sum(map(len, every.values()))
    refused = {name: found for name in names if (found := refusals(every[name], name))}
    sent = [each for name in names for each in launches(name) if each.documents]
    missing = [(each.platform, each.what, each.kind, missing_files(each.documents)) for each in sent]
    assert [each for each in missing if each[-1]] == []
    kinds = "\n".join(f"  {count:5} {kind}" for kind, count in sorted(reader.READ.items()))
    evaluated, all_rules = cel_rules.EVALUATED, rules()
    print(
        f"{len(names)} platforms: {documents} documents, {reader.READ.total()} objects with embedded ones, "
        f"of {len(reader.READ)} kinds; {len(all_rules & set(evaluated))} of {len(all_rules)} CEL rules of the "
        f"definitions, evaluated {evaluated.total()} times; {sum(map(len, refused.values()))} refusals\n{kinds}"
    )
    assert refused == {}
    if names != PLATFORMS:
        return
    # Every definition here is used.
    package = data()["package"]
    documented = {f"{each['api_version']} {each['kind']}" for each in data()["documented"]}
    defined = {f"{each.api_version} {each.kind}" for each in definitions().values() if each.kind in {*KINDS, *NOT_JOBS}}
    assert {*defined, *documented, f"{package['api_version']} {package['kind']}"} <= set(reader.READ)


def test_every_rule_of_the_definitions_can_be_evaluated() -> None:
    assert len(rules()) > 20
    assert [problem for rule in sorted(rules()) for problem in cannot_be_evaluated(rule)] == []


@pytest.mark.parametrize("name", with_representatives(PLATFORMS, REPRESENTATIVES))
def test_every_pod_satisfies_what_its_namespace_enforces(name: str) -> None:
    enforced = {
        each["metadata"]["labels"].get("pod-security.kubernetes.io/enforce")
        for each in delivered(name)
        # The namespaces of exporters and of the file system, in which nobody but the platform has rights.
        if each["kind"] == "Namespace" and each["metadata"]["name"] not in (NAMESPACE, OPENER)
    }
    # A pod that mounts the whole file system opens directories as root, KubeRay's keeps its capabilities, and the level
    # of a space's pod is not known.
    platform = every_platform()[name]
    opens = platform.storage.lustre and not platform.storage.team_directories
    spaces = platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.spaces
    level = "baseline" if opens or spaces or platform.kubernetes_or_default.ray_operator else "restricted"
    assert enforced == {level}
    violations = {"baseline": baseline_violations, "restricted": restricted_violations}[level]
    pods = list(pod_templates(submitted(name)))
    assert pods
    assert [found for pod in pods for found in violations(pod)] == []


def pod_templates(node: Any) -> Iterator[Document]:
    """Yield every pod and pod template in a document."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node
        for value in node.values():
            yield from pod_templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_templates(value)


def _borrows_alone(queue: Document) -> None:
    """Of a queue in no cohort, a limit to what it borrows is refused by a CEL rule."""
    del queue["spec"]["cohortName"]
    for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
        for resource in flavor["resources"]:
            resource["borrowingLimit"] = "1"


def _hostname_first(topology: Document) -> None:
    topology["spec"]["levels"].insert(0, topology["spec"]["levels"].pop())


_JOBSET_POD = "spec.template.spec.replicatedJobs.0.template.spec.template.spec"


SEAMS = (
    Seam(
        "Kubernetes' own objects",
        "trainway/manifests",
        "schemas of the platform's Kubernetes version (kubernetes-validate), unknown fields refused, with list types, "
        "enumerations, quantities, names, and the references within a pod",
        (
            *planted_in(
                "several-teams",
                "Namespace",
                {
                    "a label's value has a space": put("metadata.labels.team", "research and development"),
                    "the name has a capital letter": put("metadata.name", "Research"),
                },
            ),
            *planted_in(
                "several-teams",
                "ResourceQuota",
                {
                    "a quantity has no such unit": put("spec.hard.count/configmaps", "4Gib"),
                    "a field is in the wrong place": put("hard", {"pods": "1"}),
                },
            ),
            *planted_in("several-teams", "Role", {"a rule has no verbs": drop("rules.0.verbs")}),
            *planted_in("several-teams", "RoleBinding", {"the subject is a Team": put("subjects.0.kind", "Team")}),
            *planted_in(
                "several-teams",
                "PersistentVolume",
                {
                    "the access mode is misspelled": put("spec.accessModes.0", "ReadWriteAll"),
                    "the driver is missing": drop("spec.csi.driver"),
                },
            ),
            *planted_in("kai", "PriorityClass", {"the value is a string": put("value", "100")}),
            *planted_in(
                "dra", "ResourceClaimTemplate", {"`exactly` is misspelled": put("spec.spec.devices.exact", {})}
            ),
            *planted_in("dynamic-volumes", "StorageClass", {"the provisioner is missing": drop("provisioner")}),
            *planted_in("several-teams", "ConfigMap", {"a value is no string": put("data.nodes", 4)}),
        ),
        NO_API_SERVER,
    ),
    Seam(
        "training runtimes",
        "trainway/manifests/training_runtime.py",
        "definitions of Trainer 2.3.0 and JobSet 0.12.0: schemas, list types, and CEL rules; the job in it by the "
        "schema of Kubernetes",
        planted_in(
            "several-teams",
            "ClusterTrainingRuntime",
            {
                "`torch` has the removed numProcPerNode": put("spec.mlPolicy.torch.numProcPerNode", "auto"),
                "there are two ML policies": put("spec.mlPolicy.jax", {}),
                "a replicated job has no name": drop("spec.template.spec.replicatedJobs.0.name"),
                "two replicated jobs have one name": twice("spec.template.spec.replicatedJobs"),
                "the image has no registry": put(f"{_JOBSET_POD}.containers.0.image", "atlas/training:0"),
                "a mount has no volume": put(f"{_JOBSET_POD}.volumes.0.name", "efs"),
                "a toleration has an unknown effect": put(f"{_JOBSET_POD}.tolerations.0.effect", "NoRun"),
                "a field of the pod is misspelled": put(f"{_JOBSET_POD}.serviceAccount_name", "training-job"),
            },
        ),
        NO_API_SERVER,
    ),
    Seam(
        "queues of Kueue and KAI",
        "trainway/manifests/kueue.py",
        "definitions of Kueue 0.20 and KAI 0.16: schemas, list types, and CEL rules",
        (
            *planted_in(
                "several-teams",
                "ClusterQueue",
                {
                    "a field is unknown": put("spec.cohort", "trainway"),
                    "the preemption policy is unknown": put("spec.preemption.reclaimWithinCohort", "Always"),
                    "it borrows without a cohort": _borrows_alone,
                    "a flavor lacks a covered resource": drop("spec.resourceGroups.0.flavors.0.resources.0"),
                    "a flavor is there twice": twice("spec.resourceGroups.0.flavors"),
                },
            ),
            *planted_in(
                "several-teams",
                "ResourceFlavor",
                {
                    "a topology is named, and no node label": drop("spec.nodeLabels"),
                    "a toleration for Exists has a value": put(
                        "spec.tolerations", [{"key": "a", "operator": "Exists", "value": "b"}]
                    ),
                },
            ),
            *planted_in(
                "several-teams",
                "Topology",
                {
                    "the host name is not the last level": _hostname_first,
                    "a level is there twice": twice("spec.levels"),
                },
            ),
            *planted_in(
                "several-teams", "Cohort", {"the weight is no quantity": put("spec.fairSharing.weight", "much")}
            ),
            *planted_in("several-teams", "LocalQueue", {"the queue is a list": put("spec.clusterQueue", ["research"])}),
            *planted_in("several-teams", "WorkloadPriorityClass", {"the value is missing": drop("value")}),
            *planted_in("kai", "Queue", {"a quota is a string": put("spec.resources.gpu.quota", "8")}),
        ),
        NO_API_SERVER,
    ),
    Seam(
        "Karpenter's node pools",
        "trainway/manifests/node_pools.py",
        "definition of Karpenter 1.14; for the HyperpodNodeClass a schema of its documented fields",
        (
            *planted_in(
                "karpenter",
                "NodePool",
                {
                    "a requirement of In has no values": put("spec.template.spec.requirements.0.operator", "In"),
                    "a taint has an unknown effect": put("spec.template.spec.taints.0.effect", "NoStart"),
                    "the node class is missing": drop("spec.template.spec.nodeClassRef"),
                    "expireAfter is no duration": put("spec.template.spec.expireAfter", "one day"),
                    "a field of another provider is there": put("spec.template.spec.subnets", []),
                },
            ),
            *planted_in(
                "karpenter",
                "HyperpodNodeClass",
                {
                    "it has no group": put("spec.instanceGroups", []),
                    "a field is unknown": put("spec.instanceTypes", ["p5.48xlarge"]),
                },
            ),
        ),
        f"{NO_API_SERVER} AWS publishes no definition of HyperpodNodeClass.",
    ),
    Seam(
        "admission policies of KAI's queues",
        "trainway/manifests/kai_guard.py",
        "a CEL library compiles every expression and knows its variables and functions; schema of Kubernetes",
        planted_in(
            "kai",
            "ValidatingAdmissionPolicy",
            {
                "an expression is not CEL": put("spec.validations.0.expression", "object.metadata.labels ?"),
                "a variable is unknown": put("spec.validations.0.expression", "pod.spec.schedulerName == 'x'"),
                "a function is unknown": put("spec.validations.0.expression", "object.spec.schedulerName.isEmpty()"),
                "an operation is unknown": put("spec.matchConstraints.resourceRules.0.operations.0", "PATCH"),
            },
        ),
        NO_API_SERVER,
    ),
    Seam(
        "admission policies of Run:ai's projects",
        "trainway/manifests/run_ai.py",
        "a CEL library compiles every expression and knows its variables and functions; schema of Kubernetes",
        planted_in(
            "run-ai",
            "ValidatingAdmissionPolicy",
            {
                "an expression is not CEL": put("spec.validations.0.expression", "object.metadata.labels ?"),
                "a variable is unknown": put("spec.validations.0.expression", "pod.spec.schedulerName == 'x'"),
            },
        ),
        NO_API_SERVER,
    ),
    Seam(
        "Pod Security of the teams' namespaces",
        "trainway/manifests/pod.py",
        "every control of the Pod Security Standard that the namespace enforces, `baseline`",
        pod_planted(
            "several-teams",
            {
                "a container is privileged": put("spec.containers.0.securityContext.privileged", True),
                "a volume is a path of the node": put("spec.volumes.0.hostPath", {"path": "/"}),
                "the pod is in the node's network": put("spec.hostNetwork", True),
                "a capability is added": put("spec.containers.0.securityContext.capabilities.add", ["IPC_LOCK"]),
                "a port of the node is opened": put("spec.containers.0.ports", [{"containerPort": 1, "hostPort": 1}]),
                "seccomp is off": put("spec.securityContext.seccompProfile", {"type": "Unconfined"}),
            },
        ),
        "The API server has the controls built in.",
    ),
)
