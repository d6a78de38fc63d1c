"""Options of `trainway launch --target kubernetes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

from trainway.launch.kubernetes.process import KILL_RANKS_AFTER, STOP_SECONDS
from trainway.launch.kubernetes.who_shares import Sharing
from trainway.launch.program.launcher_conflicts import starts_on_all_nodes
from trainway.launch.program.lost_nodes import LostNodeOptions, check_lost_nodes, check_program
from trainway.launch.program.rank_launchers import ONCE_PER_GPU, launches_ranks
from trainway.launch.program.request import Request
from trainway.launch.target.options import Flag
from trainway.spec.errors import UsageError, usage_error

Kind = Literal["TrainJob", "PyTorchJob", "HyperPodPyTorchJob", "MPIJob", "JobSet", "RayJob"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Priority = Literal["low", "normal", "high"]
# What installs the operator of each kind, by its key in the platform file.
_INSTALLED_BY: dict[Kind, str] = {
    "TrainJob": "kubernetes.trainer",
    "PyTorchJob": "kubernetes.pytorch_operator",
    "HyperPodPyTorchJob": "hyperpod.training_operator",
    "MPIJob": "kubernetes.mpi_operator",
    "JobSet": "kubernetes.trainer",
    "RayJob": "kubernetes.ray_operator",
}
# What AWS documents that task governance queues; the sources are in trainway/manifests/job_kinds.py.
_GOVERNED: tuple[Kind, ...] = ("PyTorchJob", "HyperPodPyTorchJob")
# A step, an evaluation, a checkpoint and the compilation of a large model all take less; a hang never ends.
HANG_SECONDS = 1800
# A week: long enough to find out after a weekend why a run failed.
_KEEP_HOURS = 7 * 24


@dataclass(frozen=True)
class KubernetesOptions(LostNodeOptions):
    """Options of one run on Kubernetes.

    `kind`: the kind of object that runs the job; None is the platform's default. `priority`: the order among the jobs
    of a team; None is no priority class. `within`: a node label, for example topology.k8s.aws/network-node-layer-3. All
    nodes of the run have the same value of the label. `exclude`: names of nodes that the run does not use, with commas
    between them.

    HyperPod's operator restarts a HyperPodPyTorchJob after `hang_seconds` without a step that has a finite loss, after
    five consecutive steps slower than `slow_step_seconds`, and after five consecutive losses above `loss_above`.
    """

    kind: Annotated[
        Kind | None, Flag("Kind of object that runs the job. Default: TrainJob, and PyTorchJob on HyperPod.")
    ] = None
    priority: Annotated[Priority | None, Flag("Priority among the jobs of the team. Default: no priority class.")] = (
        None
    )
    within: Annotated[
        str | None,
        Flag(
            "Run only on nodes that have the same value of this node label, for example topology.k8s.aws/"
            "network-node-layer-3. Default: nodes as close together as there is room.",
            metavar="LABEL",
        ),
    ] = None
    exclude: Annotated[
        str | None,
        Flag(
            "Use none of these nodes, for example ip-10-0-1-5,ip-10-0-1-7. `trainway status` names the nodes of a run. "
            "Default: use any node of the group.",
            metavar="NODES",
        ),
    ] = None
    hang_seconds: Annotated[
        int,
        Flag(
            f"Restart the job when no step ends for S seconds (HyperPodPyTorchJob only). Default: {HANG_SECONDS}.",
            metavar="S",
            least=1,
        ),
    ] = HANG_SECONDS
    slow_step_seconds: Annotated[
        int | None,
        Flag(
            "Restart the job after five consecutive steps slower than S seconds (HyperPodPyTorchJob only).",
            metavar="S",
            least=1,
        ),
    ] = None
    loss_above: Annotated[
        int | None,
        Flag(
            "Restart the job after five consecutive losses above LOSS (HyperPodPyTorchJob only).",
            metavar="LOSS",
            least=1,
        ),
    ] = None


def kind_of(request: Request, options: KubernetesOptions, sharing: Sharing) -> Kind:
    """Return the kind that the launch names, or else the platform's default.

    Raises UsageError for a kind whose operator the platform does not have, and where task governance shares the nodes
    and the platform has no kind that it is documented to queue.
    """
    # The hand-off of an earlier deploy does not say which operators there are.
    installed = cast(tuple[Kind, ...], request.hand_off.cluster.job_kinds)
    kind = options.kind or (installed[0] if installed else "TrainJob")
    elsewhere = kind == "HyperPodPyTorchJob" and request.hand_off.orchestrator != "hyperpod-eks"
    if installed and kind not in installed and not elsewhere:
        why = f"{request.hand_off.platform} has no operator that runs a {kind}"
        fix = f"set {_INSTALLED_BY[kind]} to true in the platform file and deploy, or use --kind {installed[0]}"
        raise _cannot(request, why, fix)
    if installed and options.kind is None and sharing == "task governance" and kind not in _GOVERNED:
        why = f"AWS documents that task governance queues {' and '.join(_GOVERNED)}, and the platform has neither"
        fix = f"set {_INSTALLED_BY['PyTorchJob']} to true in the platform file and deploy, or name --kind {kind}"
        raise _cannot(request, why, fix)
    return kind


def keep_seconds(request: Request) -> int:
    """Return how many seconds the object of a finished run stays."""
    return 3600 * (request.program.life_cycle.keep_hours or _KEEP_HOURS)


def check_options(request: Request, options: KubernetesOptions, sharing: Sharing) -> None:
    """Raise UsageError for an option that the platform, the kind, or the job does not support."""
    if not request.run[0].isalpha():
        # https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go (read 2026-11-21);
        # the other operators make a Service of the name as well.
        raise _cannot(request, f"its name {request.run} does not begin with a letter", "change `name` of the job file")
    if options.priority and not request.hand_off.teams:
        why = f"{request.hand_off.platform} has no teams, and so no queue in which a job could go first"
        raise _cannot(request, why, "leave --priority out")
    if options.kind == "HyperPodPyTorchJob" and request.hand_off.orchestrator != "hyperpod-eks":
        why = f"{request.hand_off.platform} is not HyperPod, whose operator runs a HyperPodPyTorchJob"
        raise _cannot(request, why, "use --kind TrainJob")
    rules = (options.slow_step_seconds, options.loss_above)
    if options.kind != "HyperPodPyTorchJob" and (any(rules) or options.hang_seconds != HANG_SECONDS):
        why = "only HyperPod's operator watches a job's log"
        raise _cannot(request, why, "use --kind HyperPodPyTorchJob, or leave the rules out")
    if options.kind == "TrainJob" and request.allocation.group.runtime is None:
        why = f"{request.hand_off.platform} has no Kubeflow Trainer, or was deployed before it was in the hand-off"
        raise _cannot(request, why, "set kubernetes.trainer to true and deploy, or name another --kind")
    if options.kind == "TrainJob" and request.program.life_cycle.keep_hours is not None:
        # trainway/launch/kubernetes/train_job.py, render_training_runtime
        why = "Kubeflow Trainer has no time to live: it starts a failed TrainJob again when its JobSet is deleted"
        raise _cannot(request, why, "leave `life_cycle.keep_hours` out of the job file, or name another --kind")
    if options.kind in ("MPIJob", "RayJob") and request.hand_off.file_system is None:
        why = (
            f"{request.hand_off.platform} has no file system, on which the nodes of this kind share the files of a run"
        )
        raise _cannot(request, why, "use --kind JobSet, or set storage.lustre of the platform file and deploy")
    if options.kind == "RayJob":
        _check_ray(request)
    if options.within and not request.hand_off.teams:
        why = f"{request.hand_off.platform} has no teams, and so nothing that places nodes by their network"
        raise _cannot(request, why, "leave --within out")
    if request.program.started_by is not None:
        _check_starter(request, options)
    if options.continues:
        _check_continues(request, options)
    if sharing == "run-ai":
        _check_run_ai(request, options)


def _check_run_ai(request: Request, options: KubernetesOptions) -> None:
    """Refuse the options that a launch does not pass on to Run:ai."""
    given = {"--priority": options.priority, "--within": options.within, "--min-nodes": options.min_nodes}
    for flag, value in (*given.items(), ("--spare-nodes", options.spare_nodes)):
        if value:
            why = f"Run:ai shares the nodes of {request.hand_off.platform}, and a launch does not pass {flag} on to it"
            raise _cannot(request, why, f"leave {flag} out")


def _check_starter(request: Request, options: KubernetesOptions) -> None:
    """Refuse a section `run` that the kind or the time of a pod's end does not allow."""
    if options.kind == "HyperPodPyTorchJob":
        _check_agent(request, options)
    if options.kind != "MPIJob" and (launcher := starts_on_all_nodes(request.program)):
        why = f"each node runs the program, and {launcher} would start the ranks of all nodes again"
        raise _cannot(request, why, "use --kind MPIJob, or write torchrun in the place of it")
    grace = request.program.stop.grace_seconds or 0
    if grace > KILL_RANKS_AFTER:
        why = f"run.stop.grace is {grace} seconds, and a pod is killed {STOP_SECONDS} seconds after it is told to stop"
        raise _cannot(request, why, f"set run.stop.grace to at most {KILL_RANKS_AFTER}")


def _check_agent(request: Request, options: KubernetesOptions) -> None:
    """Refuse a section `run` that HyperPod's agent, which takes the place of torchrun, cannot start or watch."""
    program = request.program
    if program.is_script or not launches_ranks(program.command):
        why = "hyperpodrun starts the ranks of a HyperPodPyTorchJob in place of torchrun"
        raise _cannot(request, why, "begin `run.command` with torchrun, or use --kind JobSet")
    if options.slow_step_seconds or options.loss_above or options.hang_seconds != HANG_SECONDS:
        why = "the rules for the log of a HyperPodPyTorchJob know the lines of Trainway's own training job only"
        raise _cannot(request, why, "leave the rules out")
    if options.min_nodes is not None:
        why = "an elastic HyperPodPyTorchJob has two sets of pods, so that its nodes have no index of their own"
        raise _cannot(request, why, "leave --min-nodes out, or name another --kind")


def _check_ray(request: Request) -> None:
    """Refuse what KubeRay cannot do, and programs that are no driver of Ray."""
    if request.program.started_by is None:
        why = "a RayJob starts the driver of a Ray program, and training.elastic starts Trainway's own training job"
        raise _cannot(request, why, "write a section `run` into the job file, or name another --kind")
    if request.program.life_cycle.keep_hours is not None:
        why = "KubeRay has no time to live for a RayJob, whose object stays until the run is launched again"
        raise _cannot(request, why, "leave `life_cycle.keep_hours` out of the job file, or name another --kind")
    if request.program.command[: len(ONCE_PER_GPU)] == ONCE_PER_GPU:
        why = "a RayJob starts one driver, which asks Ray for processes with GPUs"
        raise _cannot(request, why, "leave `run.ranks` out of the job file, or name another --kind")


def _check_continues(request: Request, options: KubernetesOptions) -> None:
    """Raise UsageError if the kind, the program, or the node group does not support --min-nodes or --spare-nodes."""
    fix = "leave --min-nodes and --spare-nodes out, or name another --kind"
    if options.kind == "MPIJob":
        raise _cannot(request, "mpirun cannot continue after a node failure", fix)
    if options.kind == "RayJob":
        raise _cannot(request, "the number of nodes of a Ray cluster is fixed while Kueue has its quota", fix)
    if options.kind != "HyperPodPyTorchJob":
        check_program(request.program, options, lambda why, fix: _cannot(request, why, fix))
    check_lost_nodes(request, options, lambda why, fix: _cannot(request, why, fix))


def _cannot(request: Request, why: str, fix: str) -> UsageError:
    return usage_error(f"{request.program.name} cannot be launched on Kubernetes like that", why=why, fix=fix)
