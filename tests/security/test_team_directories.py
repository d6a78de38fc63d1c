"""Threat: a job reads, changes, or deletes files of another team on the Lustre file system."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launch.kubernetes.platforms import OPERATORS, hand_off_of, request_on
from tests.launch.sagemaker.requests import on_sagemaker
from tests.manifests.platforms import CATALOGUE, objects, platform_of
from tests.seams.evaluator import Question, allowed, role
from tests.seams.kubernetes.pod_security import baseline_violations, restricted_violations
from tests.seams.kubernetes.reader import read
from tests.seams.kubernetes.rendered import deployed
from tests.seams.resolved import ACCOUNT, deploy
from tests.security.test_team_data import PLATFORM, ROLES, roles_of
from tests.synthesis import templates_of
from trainway.extensions.workspace import WorkspaceRequest, define, render_workspace
from trainway.launch.kubernetes.options import KINDS, KubernetesOptions
from trainway.launch.kubernetes.render import render_documents
from trainway.launch.sagemaker.options import SageMakerOptions
from trainway.launch.sagemaker.render import render_request
from trainway.manifests.namespace import namespaces
from trainway.manifests.team_directory_opener import NAMESPACE as OPENER
from trainway.spec.handoff import HandOff
from trainway.spec.jobs.training_job_tags import PLATFORM_TAG, TEAM_TAG
from trainway.spec.platform import Platform

Document = dict[str, Any]
# All teams mount the whole file system, on purpose.
SHARED: Document = {"lustre": {"team_directories": False}}
ENFORCED = "pod-security.kubernetes.io/enforce"
TEAMS = [{"name": "research"}, {"name": "product"}]
ON_PYTORCH = KubernetesOptions(kind="PyTorchJob")
CHANGES: dict[str, Document] = {
    "eks": {"teams": TEAMS, "kubernetes": OPERATORS},
    "hyperpod-eks": {
        "teams": TEAMS,
        "orchestrator": "hyperpod-eks",
        "kubernetes": OPERATORS,
        "hyperpod": {"training_operator": True},
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}],
    },
}


@pytest.fixture(params=sorted(CHANGES))
def orchestrator(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def platform(orchestrator: str) -> Platform:
    return platform_of(**CHANGES[orchestrator])


def admits(platform: Platform, pod: Document, namespace: str, resource: str = "pods") -> bool:
    """Return whether the API server admits a pod to a namespace, by what the policies of the platform say."""
    import cel

    operation = "UPDATE" if resource == "pods/ephemeralcontainers" else "CREATE"
    known = {"object": pod, "request": {"operation": operation, "namespace": namespace}}
    verdicts = []
    bound = {each["spec"]["policyName"] for each in objects(platform, "ValidatingAdmissionPolicyBinding")}
    for policy in objects(platform, "ValidatingAdmissionPolicy"):
        assert policy["metadata"]["name"] in bound
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        if operation in rule["operations"] and resource in rule["resources"]:
            verdicts += [cel.evaluate(each["expression"], known) for each in policy["spec"]["validations"]]
    assert verdicts, "a policy applies"
    return all(verdict is True for verdict in verdicts)


def pods_in(document: Any) -> Iterator[Document]:
    """Yield the specifications of pods, wherever they are in a document."""
    if isinstance(document, dict):
        if "containers" in document and "volumes" in document:
            yield document
        for each in document.values():
            yield from pods_in(each)
    elif isinstance(document, list):
        for each in document:
            yield from pods_in(each)


def pods_of_the_platform(platform: Platform) -> list[Document]:
    """Return the pods of a run of each kind, of a workspace, and of the platform's runtime, for the team research."""
    hand_off = hand_off_of(platform)
    found = []
    for kind in KINDS:
        if kind in hand_off.cluster.job_kinds:
            request = request_on(hand_off, **({"run": {"command": ["python", "a.py"]}} if kind == "RayJob" else {}))
            found += list(pods_in(render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))))
    workspace = define(hand_off, lambda _: "image", CATALOGUE, WorkspaceRequest("ada", team="research"))
    found += list(pods_in(render_workspace(workspace, CATALOGUE, "secret")))
    found += list(pods_in(objects(platform, "ClusterTrainingRuntime")))
    assert len(found) > 6
    return [{"spec": each} for each in found]


def test_pods_of_runs_workspaces_and_runtimes_mount_the_directory_of_their_team(
    platform: Platform,
) -> None:
    mine, theirs = namespaces(platform)
    for pod in pods_of_the_platform(platform):
        assert admits(platform, pod, mine), pod
        # The runtime of the platform mounts the directory of the namespace in which its pods are.
        assert admits(platform, pod, theirs) == ("subPathExpr" in json.dumps(pod))


def test_every_pod_of_a_team_satisfies_restricted(platform: Platform) -> None:
    pods = pods_of_the_platform(platform)
    assert [found for pod in pods for found in restricted_violations(pod)] == []
    planted = copy.deepcopy(pods[0])
    del planted["spec"]["securityContext"]["seccompProfile"]
    assert restricted_violations(planted) != []


@pytest.mark.parametrize(
    ("keys", "level"),
    [
        ({}, "restricted"),
        ({"kubernetes": {"ray_operator": True}}, "baseline"),
        ({"storage": SHARED}, "baseline"),
        ({"hyperpod": {"spaces": True}}, "baseline"),
    ],
)
def test_the_namespace_of_a_team_enforces_what_all_its_pods_satisfy(
    keys: Document, level: str, orchestrator: str
) -> None:
    if "hyperpod" in keys and orchestrator == "eks":
        keys, level = {}, "restricted"
    found = objects(platform_of(**CHANGES[orchestrator] | {"kubernetes": {}} | keys), "Namespace")
    levels = {each["metadata"]["name"]: each["metadata"]["labels"][ENFORCED] for each in found}
    assert len(set(levels) - {OPENER}) == 2
    assert {levels[name] for name in set(levels) - {OPENER}} == {level}


def test_root_opens_the_directories_outside_the_namespaces_of_teams(platform: Platform) -> None:
    """On the nodes of every group, without a request that a job would lack."""
    (opener,) = objects(platform, "DaemonSet")
    assert opener["metadata"]["namespace"] == OPENER not in namespaces(platform)
    pod = opener["spec"]["template"]
    assert baseline_violations(pod) == [] and restricted_violations(pod) != []
    (container,) = pod["spec"]["containers"]
    assert "resources" not in container
    assert container["command"][-2:] == [f"teams/{name}" for name in namespaces(platform)]
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"][0]["values"] == [group.name for group in platform.node_groups]
    tolerated = {each["key"] for each in pod["spec"]["tolerations"]}
    assert tolerated == {"nvidia.com/gpu"}
    of_claims = [each["metadata"] for each in objects(platform, "PersistentVolumeClaim")]
    claims = [each["name"] for each in of_claims if each["namespace"] == OPENER]
    assert claims == [pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]]
    assert objects(platform_of(teams=TEAMS, storage=SHARED), "DaemonSet") == []


def user_of(team: str, hand_off: HandOff) -> int:
    """Return the ID of the user that the pods of a team's job have."""
    request = request_on(hand_off, team=team)
    users = {pod["securityContext"]["runAsUser"] for pod in pods_in(render_documents(request, CATALOGUE, ON_PYTORCH))}
    (user,) = users
    return int(user)


def as_user(user: int, *command: str | Path) -> bool:
    """Run a command as a user without capabilities, as in a pod, and return whether it succeeded."""
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--bounding-set=-all"]
    return subprocess.run([*become, *command], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0 and "CI" not in os.environ, reason="becomes other users, which requires root")
@pytest.mark.parametrize("lustre", [{}, {"root_squash": {"uid": 65534, "gid": 65534}}], ids=["", "root squash"])
def test_without_directories_nothing_keeps_a_pod_from_the_files_of_another_team(lustre: Document) -> None:
    """Show that the threat stays open with root squash: the pods of all teams run as one user."""
    platform = platform_of(teams=TEAMS, storage={"lustre": lustre}, kubernetes=OPERATORS)
    hand_off = hand_off_of(platform)
    owner, other = (user_of(team.name, hand_off) for team in platform.teams)
    # Not in tmp_path, which other users cannot reach.
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o1777)
        weights = Path(directory) / "research" / "weights"
        assert as_user(owner, "sh", "-c", f"umask 077 && mkdir {weights.parent} && echo secret > {weights}")
        assert not as_user(owner + 1, "cat", weights), "the mode keeps another ID out"
        assert as_user(other, "cat", weights) and as_user(other, "rm", weights)
    # A pod of its own can also be root, or any user.
    pod: Document = {"containers": [{"name": "main", "image": "image"}], "securityContext": {"runAsUser": 0}}
    assert levels_of(platform) == {"baseline"} and baseline_violations({"spec": pod}) == []


def levels_of(platform: Platform) -> set[str]:
    """Return the levels of Pod Security that the namespaces of jobs enforce."""
    names = set(namespaces(platform))
    found = [each["metadata"] for each in objects(platform, "Namespace") if each["metadata"]["name"] in names]
    return {each["labels"][ENFORCED] for each in found}


def mount_of(pod: Document) -> Document:
    mount: Document = next(each for each in pod["spec"]["containers"][0]["volumeMounts"] if each["name"] == "fsx")
    return mount


def _whole(pod: Document) -> None:
    del mount_of(pod)["subPath"]


def _another_team(pod: Document) -> None:
    mount_of(pod)["subPath"] = mount_of(pod)["subPath"].replace("research", "product")


def _a_link_below_it(pod: Document) -> None:
    mount_of(pod)["subPath"] += "/link"


def _by_a_variable_of_its_own(pod: Document) -> None:
    del mount_of(pod)["subPath"]
    mount_of(pod)["subPathExpr"] = "teams/$(TRAINWAY_NAMESPACE)"
    pod["spec"]["containers"][0].setdefault("env", []).extend([{"name": "TRAINWAY_NAMESPACE", "value": "product"}])


def _by_the_right_variable_and_another(pod: Document) -> None:
    _by_a_variable_of_its_own(pod)
    right = {"name": "TRAINWAY_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    pod["spec"]["containers"][0].setdefault("env", []).extend([right])


def _by_a_label(pod: Document) -> None:
    del mount_of(pod)["subPath"]
    mount_of(pod)["subPathExpr"] = "teams/$(TRAINWAY_NAMESPACE)"
    label = {"name": "TRAINWAY_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}
    pod["spec"]["containers"][0].setdefault("env", []).extend([label])


def _in_an_init_container(pod: Document) -> None:
    pod["spec"]["initContainers"] += [{"name": "copy", "volumeMounts": [{"name": "fsx", "mountPath": "/all"}]}]


def _by_another_volume(pod: Document) -> None:
    pod["spec"]["volumes"] += [{"name": "all", "persistentVolumeClaim": {"claimName": "fsx"}}]
    pod["spec"]["containers"][0]["volumeMounts"] += [{"name": "all", "mountPath": "/all"}]


ATTEMPTS = (
    *(_whole, _another_team, _a_link_below_it, _by_a_variable_of_its_own, _by_the_right_variable_and_another),
    *(_by_a_label, _in_an_init_container, _by_another_volume),
)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_pod_with_more_of_the_file_system_is_refused(attempt: Callable[[Document], None], platform: Platform) -> None:
    pod = next(each for each in pods_of_the_platform(platform) if "subPathExpr" not in json.dumps(each))
    pod = copy.deepcopy(pod)
    assert admits(platform, pod, namespaces(platform)[0])
    attempt(pod)
    assert not admits(platform, pod, namespaces(platform)[0])


def test_an_ephemeral_container_mounts_no_volume(platform: Platform) -> None:
    pod = copy.deepcopy(pods_of_the_platform(platform)[0])
    pod["spec"]["ephemeralContainers"] = [{"name": "debugger"}]
    assert admits(platform, pod, namespaces(platform)[0], "pods/ephemeralcontainers")
    pod["spec"]["ephemeralContainers"][0]["volumeMounts"] = [{"name": "fsx", "mountPath": "/all"}]
    assert not admits(platform, pod, namespaces(platform)[0], "pods/ephemeralcontainers")


def test_a_pod_without_the_file_system_or_with_a_claim_of_its_own_is_admitted(platform: Platform) -> None:
    own = {"name": "own", "persistentVolumeClaim": {"claimName": "scratch"}}
    mounts = [{"name": "own", "mountPath": "/own"}]
    container = {"name": "a", "volumeMounts": mounts}
    assert admits(platform, {"spec": {"containers": [{"name": "a"}]}}, "research")
    assert admits(platform, {"spec": {"containers": [container], "volumes": [own]}}, "research")


def test_the_claim_of_the_former_file_system_is_guarded_as_well() -> None:
    storage = {"lustre": {"generation": 2}, "former_lustre": {"mirror": False}}
    platform = platform_of(**CHANGES["eks"] | {"storage": storage})
    for claim in ("fsx", "fsx-2"):
        volume = {"name": "fsx", "persistentVolumeClaim": {"claimName": claim}}
        container = {"name": "a", "volumeMounts": [{"name": "fsx", "mountPath": "/fsx"}]}
        pod = {"spec": {"containers": [container], "volumes": [volume]}}
        assert not admits(platform, pod, "research")
        container["volumeMounts"][0]["subPath"] = "teams/research"  # type: ignore[index]
        assert admits(platform, pod, "research")


def test_kubernetes_reads_the_objects_of_such_a_platform(platform: Platform) -> None:
    version = platform.kubernetes_or_default.version
    for kind in ("ValidatingAdmissionPolicy", "ClusterTrainingRuntime", "Namespace", "DaemonSet"):
        for each in objects(platform, kind):
            assert read(deployed(each), version) == []


def test_a_platform_without_team_directories_has_no_such_policy() -> None:
    platform = platform_of(teams=TEAMS, storage=SHARED)
    there = {each["metadata"]["name"] for each in objects(platform, "ValidatingAdmissionPolicy")}
    assert not any("directory" in name for name in there)


def test_a_training_job_mounts_the_directory_of_its_team_and_a_member_can_name_no_other(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("platform") / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | {"orchestrator": "eks"}))
    live = deploy(templates_of(file), PLATFORM["region"])
    hand_off = on_sagemaker(hand_off_of(platform_of(**CHANGES["eks"] | {"teams": PLATFORM["teams"]})))
    rendered = render_request(request_on(hand_off, team="vision"), CATALOGUE, SageMakerOptions(data="fsx"))
    (mounted,) = (
        each["DataSource"]["FileSystemDataSource"]
        for each in rendered["InputDataConfig"]
        if "FileSystemDataSource" in each["DataSource"]
    )
    assert mounted["DirectoryPath"] == f"/{hand_off.mounted.mount_name}/teams/vision"
    asked: list[tuple[bool, Question]] = []
    for team in ROLES:
        *_, (member, own) = roles_of(team, live, "eks")
        (mine,) = _directories(own)
        root = mine.removesuffix(f"/teams/{team}")
        other = next(each for each in ROLES if each != team)
        asked += [(True, _creates(member, own, team, mine)), (True, _creates(member, own, team, None))]
        for directory in (root, f"{root}/teams", f"{root}/teams/{other}", f"{mine}/link", f"{mine}/../{other}"):
            asked.append((False, _creates(member, own, team, directory)))
    assert [may for may, _ in asked] == allowed([question for _, question in asked])


def _directories(policies: list[Document]) -> set[str]:
    """Return the directories of a file system that policies name."""
    key = '"sagemaker:FileSystemDirectoryPath": "'
    return {part.partition('"')[0] for part in json.dumps(policies).split(key)[1:]}


def _creates(member: str, own: list[Document], team: str, directory: str | None) -> Question:
    """Return whether a member creates a training job of the team that mounts a directory, or no file system."""
    job = f"arn:aws:sagemaker:{PLATFORM['region']}:{ACCOUNT}:training-job/llama-1"
    context: dict[str, str | list[str]] = {
        f"aws:RequestTag/{PLATFORM_TAG}": "trainway",
        f"aws:RequestTag/{TEAM_TAG}": team,
    }
    if directory is not None:
        context["sagemaker:FileSystemDirectoryPath"] = directory
    return Question(role(member), "sagemaker:CreateTrainingJob", job, own, context=context)
