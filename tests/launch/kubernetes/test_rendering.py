"""Every kind asks for all that a node has, in the team's place, and runs the words that every target runs."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from tests.launch.kubernetes.kubelet import Pod, expanded, resolved
from tests.launch.kubernetes.platforms import (
    OPERATORS,
    PLATFORMS,
    ROOT,
    RUN,
    hand_off_of,
    platform_named,
    pods_of,
    request_for,
    request_on,
    without_copies,
)
from tests.launch.kubernetes.trainer import pod_template_of
from tests.manifests.platforms import CATALOGUE, named, objects, platform_of
from tests.seams.kubernetes.run_files import missing_files
from trainway.launch.job_file.training_program import training_command
from trainway.launch.kubernetes import KINDS, Kind, KubernetesOptions, as_yaml, render_documents
from trainway.launch.kubernetes.mpirun import MPIRUN, OF_THE_IMAGE
from trainway.launch.kubernetes.node_program import under_agent
from trainway.launch.kubernetes.process import DIRECTORY
from trainway.launch.program.program import RUN_FILES
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.spec.errors import UsageError

# HyperPod's own kind is for HyperPod, and a RayJob for programs of Ray (test_programs.py). The others are for every job
# and every platform of Kubernetes.
RENDERED = [
    (platform, kind)
    for platform in PLATFORMS
    for kind in KINDS
    if kind != "RayJob" and (kind != "HyperPodPyTorchJob" or platform == "governance")
]
rendered = pytest.mark.parametrize(("platform", "kind"), RENDERED)


def job_of(platform: str, kind: Kind, **changes: Any) -> dict[str, Any]:
    options = {name: changes.pop(name) for name in list(changes) if name in KubernetesOptions.__dataclass_fields__}
    request = request_for(platform, **changes)
    return render_documents(request, CATALOGUE, KubernetesOptions(kind=kind, **options))[-1]


def runtime_of(platform: str, **changes: Any) -> dict[str, Any]:
    """The runtime that a TrainJob brings."""
    options = {name: changes.pop(name) for name in list(changes) if name in KubernetesOptions.__dataclass_fields__}
    _, runtime, _ = render_documents(
        request_for(platform, **changes), CATALOGUE, KubernetesOptions("TrainJob", **options)
    )
    return dict(runtime)


def replicated_job_of(runtime: dict[str, Any]) -> dict[str, Any]:
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return dict(replicated)


def rendered_templates(platform: str, kind: Kind, **changes: Any) -> list[dict[str, Any]]:
    """The pods of a job as its operator makes them."""
    options = {name: changes.pop(name) for name in list(changes) if name in KubernetesOptions.__dataclass_fields__}
    request = request_for(platform, **changes)
    return templates(render_documents(request, CATALOGUE, KubernetesOptions(kind=kind, **options)))


def templates(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods of the last document as its operator makes them."""
    *others, job = documents
    return [pod_template_of(job, others[1:])] if job["kind"] == "TrainJob" else pods_of(job)


def container_of(template: dict[str, Any]) -> dict[str, Any]:
    (container,) = template["spec"]["containers"]
    return dict(container)


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "JobSet"])
@pytest.mark.parametrize("until_step", [None, 6])
def test_the_command_is_the_one_of_every_target(kind: Kind, until_step: int | None) -> None:
    (template,) = rendered_templates("kueue", kind, until_step=until_step)
    assert without_copies(container_of(template)["command"]) == list(training_command(until_step))


def test_hyperpods_agent_takes_torchruns_place_and_mpirun_starts_it_once_a_node() -> None:
    request = request_for("governance", until_step=6)
    agent = under_agent(request).program.command
    assert (agent[0], agent[-3:]) == ("hyperpodrun", ("-m", "training.train", "--until-step=6"))
    launcher, worker = pods_of(job_of("kueue", "MPIJob"))
    command = without_copies(container_of(launcher)["command"])
    mpirun = command[command.index("--") + 1 :]
    assert (mpirun[0], tuple(mpirun[-3:])) == (MPIRUN, training_command())
    assert mpirun[mpirun.index("-np") + 1] == "2"
    assert "sshd" in container_of(worker)["command"][-1]


@rendered
def test_the_nodes_copy_the_files_of_a_run_where_no_bucket_mirrors_them(platform: str, kind: Kind) -> None:
    lustre = platform_named(platform).storage.lustre
    assert lustre is not None
    request = request_for(platform)
    documents = render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))
    command, copying = container_of(templates(documents)[0])["command"], str(DIRECTORY / RUN_FILES.name)
    assert (copying in command) == (not lustre.mirror)
    if not lustre.mirror:
        where = [f"--directory={request.directory}", f"--location={request.location}", "--"]
        assert command[command.index(copying) + 1 :][:4] == ["--shared", *where]
        assert missing_files(documents) == []


@rendered
def test_each_node_gives_all_its_gpus_and_all_its_efa_devices(platform: str, kind: Kind) -> None:
    """By number or by claim, and each device once."""
    of_type = CATALOGUE["p5.48xlarge"].devices
    for template in rendered_templates(platform, kind):
        container = container_of(template)
        claimed: dict[str, int] = {}
        names = {each["name"]: each["resourceClaimTemplateName"] for each in template["spec"].get("resourceClaims", ())}
        assert sorted(names) == sorted(each["name"] for each in container["resources"].get("claims", ()))
        made = named(platform_named(platform), "ResourceClaimTemplate")
        resources = {"gpu.nvidia.com": "nvidia.com/gpu", "efa.networking.k8s.aws": "vpc.amazonaws.com/efa"}
        for claim in names.values():
            for each in made[claim]["spec"]["spec"]["devices"]["requests"]:
                claimed[resources[each["exactly"]["deviceClassName"]]] = each["exactly"]["count"]
        assert {**container["resources"].get("limits", {}), **claimed} == of_type
        assert not set(container["resources"].get("limits", {})) & set(claimed)


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "JobSet"])
def test_nodes_without_devices_are_nodes_of_their_own(kind: Kind) -> None:
    group = {"name": "cpu", "instance_type": "m7i.8xlarge", "count": 2}
    request = request_on(hand_off_of(platform_of(node_groups=[group], teams=[], kubernetes=OPERATORS)))
    (template,) = templates(render_documents(request, CATALOGUE, KubernetesOptions(kind=kind)))
    asked = container_of(template)["resources"]
    assert list(asked) == ["requests"]
    millicores, vcpus = int(asked["requests"]["cpu"].removesuffix("m")), CATALOGUE["m7i.8xlarge"].vcpus
    assert millicores < 1000 * vcpus < 2 * millicores


@rendered
def test_the_job_is_where_its_team_is_and_tolerates_its_nodes(platform: str, kind: Kind) -> None:
    job, loaded = job_of(platform, kind), platform_named(platform)
    there = {(each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")) for each in all_of(loaded)}
    namespace = job["metadata"]["namespace"]
    assert ("Namespace", namespace, None) in there
    assert ("PersistentVolumeClaim", "fsx", namespace) in there
    for template in rendered_templates(platform, kind):
        pod = template["spec"]
        assert ("ServiceAccount", pod["serviceAccountName"], namespace) in there
        assert pod["serviceAccountName"] == SERVICE_ACCOUNT
        assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert pod["nodeSelector"]["trainway.dev/nodes"] == "train"
        schedulable = pod["nodeSelector"].get("sagemaker.amazonaws.com/node-health-status")
        assert schedulable == ("Schedulable" if platform == "governance" else None)
        assert pod.get("schedulerName") == {"kai": "kai-scheduler", "run-ai": "runai-scheduler"}.get(platform)


def all_of(platform: Any) -> list[dict[str, Any]]:
    kinds = ("Namespace", "PersistentVolumeClaim", "ServiceAccount")
    return [each for kind in kinds for each in objects(platform, kind)]


@rendered
def test_the_job_is_within_the_namespaces_guard_rails(platform: str, kind: Kind) -> None:
    """Pod Security `baseline`, and nothing that it does not forbid but a job does not need."""
    for template in rendered_templates(platform, kind):
        pod, container = template["spec"], container_of(template)
        assert pod["securityContext"]["runAsUser"] == 1000
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert not any("hostPath" in volume for volume in pod["volumes"])


@rendered
def test_the_job_file_and_the_file_system_are_where_the_job_looks_for_them(platform: str, kind: Kind) -> None:
    request = request_for(platform)
    config_map, *_ = documents = render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))
    for template in templates(documents):
        container, volumes = container_of(template), {each["name"]: each for each in template["spec"]["volumes"]}
        mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        job_file = PurePosixPath(environment_of(container)["TRAINWAY_JOB"])
        volume = mounted[str(job_file.parent)]
        assert volume["configMap"]["name"] == config_map["metadata"]["name"]
        assert config_map["data"][job_file.name] == request.job_text
        assert mounted["/fsx"]["persistentVolumeClaim"] == {"claimName": "fsx"}
        assert mounted["/dev/shm"]["emptyDir"] == {"medium": "Memory"}
        assert json.loads(environment_of(container)["TRAINWAY_LOCATIONS"])["fsx"] == "/fsx"
        assert environment_of(container)["TRAINWAY_RUN"] == f"/fsx/runs/{RUN}"


@rendered
def test_a_pod_has_the_time_to_save_and_its_ranks_almost_as_long(platform: str, kind: Kind) -> None:
    for template in rendered_templates(platform, kind):
        grace = template["spec"]["terminationGracePeriodSeconds"]
        assert 60 <= int(environment_of(container_of(template))["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < grace


@rendered
def test_every_pod_is_found_by_its_run(platform: str, kind: Kind) -> None:
    for template in rendered_templates(platform, kind):
        assert template["metadata"]["labels"]["trainway.dev/run"] == RUN


@pytest.mark.parametrize(
    ("platform", "labels"),
    [
        ("kueue", {"kueue.x-k8s.io/priority-class": "high"}),
        ("kai", {"kai.scheduler/queue": "research", "priorityClassName": "high"}),
        (
            "governance",
            {
                "kueue.x-k8s.io/queue-name": "hyperpod-ns-research-localqueue",
                "kueue.x-k8s.io/priority-class": "high-priority",
            },
        ),
    ],
)
@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "MPIJob", "JobSet"])
def test_the_job_is_in_its_teams_queue_with_its_priority(platform: str, labels: dict[str, str], kind: Kind) -> None:
    said = job_of(platform, kind, priority="high")["metadata"]["labels"]
    assert {key: value for key, value in said.items() if "trainway" not in f"{key}{value}"} == labels


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "MPIJob", "JobSet"])
def test_a_job_for_run_ai_names_its_project_and_says_nothing_to_kueue_or_kai(kind: Kind) -> None:
    assert job_of("run-ai", kind)["metadata"]["labels"]["runai/queue"] == "research"
    assert not re.search("kueue|kai", json.dumps(job_of("run-ai", kind)))


@pytest.mark.parametrize(
    "option",
    [{"priority": "high"}, {"within": "topology.k8s.aws/network-node-layer-3"}, {"min_nodes": 1}, {"spare_nodes": 1}],
)
def test_run_ai_is_not_told_what_it_would_not_read(option: dict[str, Any]) -> None:
    (flag,) = (f"--{name.replace('_', '-')}" for name in option)
    with pytest.raises(UsageError, match=f"does not pass {flag} on"):
        render_documents(request_for("run-ai"), CATALOGUE, KubernetesOptions(**option))


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "MPIJob", "JobSet"])
def test_the_nodes_are_close_together(kind: Kind) -> None:
    for template in rendered_templates("kueue", kind):
        wished = template["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"]
        assert wished == "kubernetes.io/hostname"
    job = job_of("kai", kind)
    said = (
        job["metadata"].get("annotations")
        or replicated_job_of(runtime_of("kai"))["template"]["metadata"]["annotations"]
    )
    assert said["kai.scheduler/topology"] in named(platform_named("kai"), "Topology")


def test_one_switch_for_all_nodes_is_a_demand() -> None:
    level = "topology.k8s.aws/network-node-layer-3"
    for kind in ("TrainJob", "PyTorchJob", "MPIJob", "JobSet"):
        for template in rendered_templates("kueue", kind, within=level):
            annotations = template["metadata"]["annotations"]
            assert annotations["kueue.x-k8s.io/podset-required-topology"] == level
            # Kueue refuses a job that also has a preference.
            assert "kueue.x-k8s.io/podset-preferred-topology" not in annotations
    annotations = replicated_job_of(runtime_of("kai", within=level))["template"]["metadata"]["annotations"]
    assert annotations["kai.scheduler/topology-required-placement"] == level


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "MPIJob"])
def test_no_pod_runs_on_an_excluded_node(kind: Kind) -> None:
    for template in rendered_templates("kueue", kind, exclude="ip-10-0-1-5,ip-10-0-1-7"):
        [term] = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        [rule] = term["matchExpressions"]
        excluded = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-10-0-1-5", "ip-10-0-1-7"]}
        assert rule == excluded


def test_launcher_and_workers_are_put_in_one_place() -> None:
    groups = [
        template["metadata"]["annotations"]["kueue.x-k8s.io/podset-group-name"]
        for template in pods_of(job_of("kueue", "MPIJob"))
    ]
    assert groups == ["nodes", "nodes"]
    (alone,) = pods_of(job_of("kueue", "MPIJob", nodes=1))
    assert "kueue.x-k8s.io/podset-group-name" not in alone["metadata"]["annotations"]


def test_of_an_elastic_job_on_hyperpod_a_part_can_be_taken() -> None:
    job, loaded = job_of("governance", "HyperPodPyTorchJob", min_nodes=1), platform_named("governance")
    needed, lent = job["spec"]["replicaSpecs"]
    assert (needed["replicas"], lent["replicas"]) == (1, 1)
    priorities = [each["template"]["spec"]["priorityClassName"] for each in (needed, lent)]
    classes = named(loaded, "PriorityClass")
    assert classes[priorities[0]]["value"] > classes[priorities[1]]["value"]


def test_synced_code_comes_before_the_images_own() -> None:
    archive = "s3://atlas-data/runs/code/abc.tar.gz"
    for kind in ("TrainJob", "PyTorchJob", "JobSet"):
        (template,) = rendered_templates("kueue", kind, code=archive)
        shell, option, script, argument, *command = without_copies(container_of(template)["command"])
        assert (shell, option, argument) == ("sh", "-c", archive)
        assert f"python3 {DIRECTORY}/synced_code.py" in script and script.endswith('exec "$@"')
        assert command == list(training_command())


def test_a_deploy_of_before_is_launched_on_with_what_the_catalogue_knows() -> None:
    request = request_for("nobody")
    old = request.hand_off.node_groups[0].model_copy(update={"devices": {}, "runtime": "trainway-torch"})
    hand_off = request.hand_off.model_copy(update={"node_groups": (old,)})
    (template,) = templates(render_documents(request_on(hand_off), CATALOGUE, KubernetesOptions()))
    assert container_of(template)["resources"]["limits"] == dict(CATALOGUE["p5.48xlarge"].devices)


def test_a_dry_run_shows_the_job_file_as_it_is_written() -> None:
    request = request_for("kueue")
    printed = as_yaml(documents := render_documents(request, CATALOGUE, KubernetesOptions()))
    assert list(yaml.safe_load_all(printed)) == json.loads(json.dumps(documents))
    assert "    model: tiny\n" in printed and "&id" not in printed


@pytest.mark.parametrize(
    ("platform", "changes", "why"),
    [
        ("kueue", {"team": None}, "the job file names none"),
        ("kueue", {"team": "marketing"}, "has no such team"),
        ("kueue", {"name": "8b-small"}, "does not begin with a letter"),
        ("nobody", {"priority": "high"}, "no teams"),
        ("nobody", {"within": "zone", "kind": "PyTorchJob"}, "nothing that places nodes by their network"),
        ("kueue", {"kind": "HyperPodPyTorchJob"}, "is not HyperPod"),
        ("kueue", {"loss_above": 9}, "only HyperPod's operator watches"),
        ("kueue", {"hang_seconds": 60}, "only HyperPod's operator watches"),
        ("kueue", {"life_cycle": {"keep_hours": 1}}, "starts a failed TrainJob again"),
        ("kueue", {"min_nodes": 3}, "asks for 2 nodes, and for 3 at least"),
        ("kueue", {"min_nodes": 0}, "asks for 2 nodes, and for 0 at least"),
        ("kueue", {"min_nodes": 1, "kind": "MPIJob"}, "mpirun cannot continue after a node failure"),
        ("kueue", {"spare_nodes": 1, "kind": "MPIJob"}, "mpirun cannot continue after a node failure"),
        ("kueue", {"spare_nodes": 100}, "102 nodes with its spare nodes"),
        ("kueue", {"min_nodes": 1, "nodes": 4, "batch": {"global": 64, "micro": 2}}, "with 3 of its 4 nodes"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(platform: str, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        job_of(platform, changes.pop("kind", "TrainJob"), **changes)


def test_a_platform_without_trainer_is_told_so() -> None:
    request = request_for("nobody")
    bare = request.hand_off.node_groups[0].model_copy(update={"runtime": None})
    hand_off = request.hand_off.model_copy(update={"node_groups": (bare,)})
    with pytest.raises(UsageError, match="has no Kubeflow Trainer"):
        render_documents(request_on(hand_off), CATALOGUE, KubernetesOptions())


def test_slurm_has_no_kubernetes() -> None:
    request = request_for("nobody")
    cluster = request.hand_off.cluster.model_copy(update={"namespaces": ()})
    hand_off = request.hand_off.model_copy(update={"cluster": cluster, "orchestrator": "hyperpod-slurm"})
    with pytest.raises(UsageError, match="--target slurm"):
        render_documents(request_on(hand_off), CATALOGUE, KubernetesOptions())


def test_mpirun_takes_along_what_the_image_says() -> None:
    """Through ssh comes nothing of a container's environment."""
    dockerfile = (ROOT / "container" / "Dockerfile").read_text()
    _, _, stages = dockerfile.partition("FROM python AS environment-cuda")
    cuda, _, rest = stages.partition("FROM python AS environment-neuron")
    _, _, libraries = rest.partition(" AS libraries")
    lines = re.findall(r"ENV ((?:.*\\\n)*.*)", cuda + libraries)
    set_by_image = {name for line in lines for name in re.findall(r"([A-Za-z_]+)=", line)}
    # The runtime of a container reads those of NVIDIA when it starts.
    assert set(OF_THE_IMAGE) == {name for name in set_by_image if not name.startswith("NVIDIA_")}


def test_references_are_resolved_as_kubernetes_resolves_them() -> None:
    pod = Pod(0, "p", "p")
    variables = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$$(A)$(LATER)"},
        {"name": "LATER", "value": "2"},
    ]
    assert resolved(variables, pod) == {"A": "1", "B": "1$(A)$(LATER)", "LATER": "2"}
    assert expanded("code=$$(python -m x) $HOME $(A)", {"A": "1"}) == "code=$(python -m x) $HOME 1"
