"""What a launch and a workspace submit: every kind and option occurs, and a member of the team may submit it."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from tests.manifests.platforms import CATALOGUE
from tests.representatives import with_representatives
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.planted import NO_API_SERVER, drop, planted_among, planted_in, put, twice, unsent
from tests.seams.kubernetes.rendered import PLURALS, every_launch, every_platform
from tests.seams.seam import Seam
from tests.security.test_personas import may
from trainway.launch.kubernetes import KINDS, KubernetesOptions
from trainway.manifests.namespace import namespace_of
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.platform import Platform
from trainway.spec.teams.groups import members_group

PLATFORMS = tuple(sorted(every_platform()))
WITH_TEAMS = tuple(name for name in PLATFORMS if every_platform()[name].teams)
# One inexpensive platform for each way to share nodes, and one platform with every operator.
REPRESENTATIVES = ("eks-p5", "hyperpod-eks-shared", "launches with kueue", "launches with run-ai")


@pytest.fixture(scope="module", autouse=True)
def _definitions() -> None:
    need_definitions()


@pytest.mark.exhaustive
def test_every_kind_is_launched_and_each_option_is_taken_somewhere() -> None:
    launched: Counter[str] = Counter()
    for name in PLATFORMS:
        for each in every_launch(name):
            if each.documents:
                options = [word.partition("=")[0] for word in each.what.split() if "=" in word]
                launched.update([each.kind, *options])
    every = {each.name for each in fields(KubernetesOptions)} - {"kind"}
    assert {*KINDS, "workspace", *every} <= set(launched)


@pytest.mark.parametrize("name", with_representatives(WITH_TEAMS, REPRESENTATIVES))
def test_a_member_of_the_team_may_create_and_delete_what_a_launch_submits(name: str) -> None:
    platform = every_platform()[name]
    team = platform.teams[0]
    kinds = {each["kind"] for launch in every_launch(name) for each in launch.documents} - not_installed(platform)
    # Workspaces keep homes on the file system.
    assert {"ConfigMap", *(("Job", "Secret") if platform.storage.lustre else ())} < kinds
    for kind in kinds:
        for verb in ("create", "patch", "get", "delete"):
            namespace = namespace_of(platform, team)
            assert may(platform, members_group(team.name), verb, PLURALS[kind], namespace), (kind, verb)


def not_installed(platform: Platform) -> set[str]:
    """Return the kinds whose operator the platform does not install."""
    installed = set(chart_names(platform, CATALOGUE))
    operators = {"TrainJob": "kubeflow-trainer", "MPIJob": "mpi-operator", "PyTorchJob": "training-operators"}
    operators |= {"JobSet": "kubeflow-trainer", "RayJob": "kuberay-operator"}
    missing = {kind for kind, chart in operators.items() if chart not in installed}
    operated = platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.training_operator
    return missing if operated else missing | {"HyperPodPyTorchJob"}


_POD = "spec.template.spec"
_JOBSET_POD = "spec.template.spec.replicatedJobs.0.template.spec.template.spec"
_SET_POD = "spec.replicatedJobs.0.template.spec.template.spec"
_JOBSETS_EXITS = "spec.replicatedJobs.0.template.spec.podFailurePolicy.rules.1.onExitCodes"
_RUNTIMES_EXITS = f"spec.template.{_JOBSETS_EXITS}"
_RUNTIMES_RULE = "spec.template.spec.failurePolicy.rules.0"
_LAUNCHER = "spec.mpiReplicaSpecs.Launcher.template.spec"
_HEAD = "spec.rayClusterSpec.headGroupSpec.template.spec"

SEAMS = (
    Seam(
        "jobs that a launch submits",
        "trainway/launch/kubernetes",
        "definitions of Trainer 2.3.0, JobSet 0.12.0, MPI operator 0.8, and training operator 1.9: schemas, list "
        "types, and CEL rules; jobs and pods by the schema of Kubernetes, TrainJobs merged with their runtime",
        (
            *planted_in(
                "several-teams",
                "TrainJob",
                {
                    "the number of processes is a word": put("spec.trainer.numProcPerNode", "auto"),
                    "a field is unknown": put("spec.trainer.nodes", 2),
                    "the name begins with a digit": put("metadata.name", "1-small"),
                    "the name is longer than a DNS label": put("metadata.name", "a" * 64),
                    "the runtime has no name": drop("spec.runtimeRef.name"),
                },
            ),
            *planted_in(
                "several-teams",
                "TrainingRuntime",
                {
                    "an action of the failure policy is unknown": put(
                        "spec.template.spec.failurePolicy.rules", [{"name": "any", "action": "Restart"}]
                    ),
                    "the runtime has a time to live of its own": put("spec.ttlSecondsAfterFinished", 60),
                    "the job's failure policy has an unknown action": put(
                        "spec.template.spec.replicatedJobs.0.template.spec.podFailurePolicy.rules.0.action", "Skip"
                    ),
                },
            ),
            *planted_in(
                "governance",
                "PyTorchJob",
                {
                    "the number of restarts is a word": put("spec.runPolicy.backoffLimit", "ten"),
                    "a field is unknown": put("spec.runPolicy.maxRestarts", 10),
                },
            ),
            *planted_in(
                "several-teams",
                "JobSet",
                {
                    "a replicated job has no name": drop("spec.replicatedJobs.0.name"),
                    "a field is unknown": put("spec.maxRestarts", 3),
                    "the Job is indexed by a word": put(
                        "spec.replicatedJobs.0.template.spec.completionMode", "ByIndex"
                    ),
                    "a claim of the pod has no name": drop(
                        "spec.replicatedJobs.0.template.spec.template.spec.volumes.0.name"
                    ),
                },
            ),
            *planted_in(
                "mpi",
                "MPIJob",
                {
                    "cleanPodPolicy is unknown": put("spec.runPolicy.cleanPodPolicy", "Completed"),
                    "the replicas are missing": drop("spec.mpiReplicaSpecs"),
                    "a field is unknown": put("spec.minReplicas", 1),
                    "the image has no registry": put(
                        "spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.image", "atlas/training"
                    ),
                    "an environment variable is there twice": twice(
                        "spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.env"
                    ),
                },
            ),
        ),
        NO_API_SERVER,
    ),
    Seam(
        "RayJobs that a launch submits",
        "trainway/launch/kubernetes/ray_job.py",
        "the part of KubeRay 1.7.0's definition that is not copied from Kubernetes, unknown fields refused; the rules "
        "of KubeRay and of Kueue's webhook; pods by the schema of Kubernetes",
        planted_in(
            "mpi",
            "RayJob",
            {
                "a field is unknown": put("spec.entryPoint", "sh start.sh"),
                "the way to submit is unknown": put("spec.submissionMode", "Sidecar"),
                "the cluster stays": put("spec.shutdownAfterJobFinishes", False),
                "an option of `ray start` is a number": put(
                    "spec.rayClusterSpec.headGroupSpec.rayStartParams", {"num-gpus": 8}
                ),
                "Ray is too old for a token": put("spec.rayClusterSpec.rayVersion", "2.9.0"),
                "the image has no registry": put(
                    "spec.rayClusterSpec.headGroupSpec.template.spec.containers.0.image", "atlas/training"
                ),
                "the name is too long": put("metadata.name", "a" * 48),
            },
        ),
        NO_API_SERVER,
    ),
    Seam(
        "objects of a section `run`",
        "trainway/launch/kubernetes",
        "as for every job; and every file that a command names is in the ConfigMap that is submitted with it",
        (
            *planted_in(
                "several-teams",
                "TrainJob",
                {
                    "the command is one text": put("spec.trainer.command", "torchrun train.py"),
                    "a number is the value of a variable": put("spec.trainer.env.0.value", 1),
                },
                job="your-program",
            ),
            *planted_in(
                "several-teams",
                "TrainingRuntime",
                {
                    "a rule of the failure policy has no action": drop(f"{_RUNTIMES_RULE}.action"),
                    "the reason of a Job's failure is unknown": put(f"{_RUNTIMES_RULE}.onJobFailureReasons", ["Exit"]),
                    "an exit status is a word": put(f"{_RUNTIMES_EXITS}.values", ["126"]),
                    "0 is a fatal exit status": put(f"{_RUNTIMES_EXITS}.values", [0, 126]),
                    "the pods restart in place": put(f"{_JOBSET_POD}.restartPolicy", "OnFailure"),
                },
                job="your-program",
            ),
            *planted_in(
                "several-teams",
                "JobSet",
                {
                    "the reason of a Job's failure is unknown": put(
                        "spec.failurePolicy.rules.0.onJobFailureReasons", ["ExitStatus"]
                    ),
                    "a fatal exit status has no operator": drop(f"{_JOBSETS_EXITS}.operator"),
                    "a failure policy fails an index": put(
                        "spec.replicatedJobs.0.template.spec.podFailurePolicy.rules.1.action", "FailIndex"
                    ),
                    "the volume of the job file is missing": drop(f"{_SET_POD}.volumes.2"),
                },
                job="your-program",
            ),
            *planted_in(
                "mpi",
                "MPIJob",
                {
                    "a variable has no name": drop(f"{_LAUNCHER}.containers.0.env.0.name"),
                    "the restart policy is unknown": put("spec.mpiReplicaSpecs.Launcher.restartPolicy", "IfFailed"),
                    "the command is one text": put(f"{_LAUNCHER}.containers.0.command", "mpirun ./train"),
                },
                job="your-program",
            ),
            *planted_in(
                "mpi",
                "RayJob",
                {
                    "the entrypoint is a list": put("spec.entrypoint", ["sh", "/etc/trainway/entrypoint.sh"]),
                    "the hook has no command": put(f"{_HEAD}.containers.0.lifecycle.preStop", {"exec": "sh"}),
                    "the token has an unknown mode": put("spec.rayClusterSpec.authOptions.mode", "password"),
                    "the volume of the job file is missing": drop(f"{_HEAD}.volumes.2"),
                },
                job="your-program",
            ),
            *planted_in(
                "governance",
                "PyTorchJob",
                {"the number of processes is a number": put("spec.nprocPerNode", 8)},
                job="your-program",
            ),
            *planted_in(
                "governance",
                "HyperPodPyTorchJob",
                {
                    "the number of processes is a number": put("spec.nprocPerNode", 8),
                    "the number of pods is a string": put("spec.replicaSpecs.0.replicas", "2"),
                    "the command is one text": put(
                        "spec.replicaSpecs.0.template.spec.containers.0.command", "hyperpodrun train.py"
                    ),
                },
                job="your-program",
            ),
            *(
                planted
                for platform, kind in (
                    ("several-teams", "TrainJob"),
                    ("several-teams", "JobSet"),
                    ("mpi", "MPIJob"),
                    ("governance", "PyTorchJob"),
                    ("governance", "HyperPodPyTorchJob"),
                )
                for planted in planted_among(
                    platform,
                    kind,
                    "your-program",
                    {
                        "the starter is not sent": unsent("start_program.py"),
                        "the ConfigMap has another name": put("metadata.name", "other"),
                    },
                )
            ),
            *planted_among(
                "mpi",
                "RayJob",
                "your-program",
                {
                    "the driver's script is not sent": unsent("entrypoint.sh"),
                    "the starter of the driver is not sent": unsent("start_program.py"),
                },
            ),
        ),
        NO_API_SERVER,
    ),
    Seam(
        "HyperPodPyTorchJobs that a launch submits",
        "trainway/launch/kubernetes/hyperpod_pytorch_job.py",
        "typed model of AWS's client (sagemaker-hyperpod 3.12.0), unknown fields refused and the whole object "
        "compared; pods by the schema of Kubernetes",
        planted_in(
            "governance",
            "HyperPodPyTorchJob",
            {
                "a field is unknown": put("spec.runPolicy.backoffLimit", 3),
                "a field of the outermost class is unknown": put("spec.minReplicas", 1),
                "a number is a string": put("spec.runPolicy.jobMaxRetryCount", "50"),
                "a required field is missing": drop("spec.runPolicy.restartPolicy.evalPeriodSeconds"),
                "a field beside `spec` is unknown": put("policy", {}),
                "the pod has no containers": drop("spec.replicaSpecs.0.template.spec.containers"),
            },
        ),
        "AWS publishes neither the operator nor its definition.",
    ),
    Seam(
        "workspaces",
        "trainway/extensions/workspace/documents.py",
        "schema of Kubernetes, unknown fields refused, with the references within a pod",
        planted_in(
            "several-teams",
            "Job",
            {
                "a number is a string": put("spec.backoffLimit", "3"),
                "a container has no name": drop(f"{_POD}.containers.0.name"),
                "a claim of the container is not the pod's": put(
                    f"{_POD}.containers.0.resources.claims", [{"name": "gpu"}]
                ),
                "a device has no domain": put(f"{_POD}.containers.0.resources.limits.gpu", "1"),
                "restartPolicy is unknown": put(f"{_POD}.restartPolicy", "Sometimes"),
                "the pods of a failure policy restart in place": put(f"{_POD}.restartPolicy", "OnFailure"),
                "a failure policy has an unknown action": put("spec.podFailurePolicy.rules.0.action", "Retry"),
            },
        ),
        NO_API_SERVER,
    ),
)
