"""A run as RayJob: KubeRay makes a Ray cluster of the run's nodes, and submits the program to it as the driver.

The first node is the head. KubeRay submits by a second container of the head's pod (SidecarMode). A pod that submits
(K8sJobMode) would need a node of its own: it has no tolerations for nodes with GPUs, and no queue has quota for it.
https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1/rayjob_types.go
https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go (all read 2026-11-23)
"""

from __future__ import annotations

import shlex
from typing import Any

from trainway.launch.kubernetes.node_pod import NodeContainer, in_one_group, node_pod
from trainway.launch.kubernetes.process import DIRECTORY, KILL_RANKS_AFTER, node_environment
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.program.program import INSTALLER, LOCK, SYNCED_CODE
from trainway.launch.program.request import Request
from trainway.manifests.pod import USER

ENTRYPOINT, PREPARATION = "entrypoint.sh", "prepare.sh"
HEAD, WORKER = "ray-head", "ray-worker"
# The oldest version of Ray that asks for a token. Without one, Ray's dashboard runs the commands of anybody in the
# cluster: validation.go of KubeRay 1.7.0 (ValidateRayClusterSpec, authOptions).
_OLDEST_RAY = "2.52.0"
# What the container requests that submits the job: GetDefaultSubmitterContainer of KubeRay 1.7.0.
_SUBMITTER_MILLICORES, _SUBMITTER_MIB = 500, 200
# The pods stay for so long after the end, so that whoever follows the log reads its last lines.
_SECONDS_FOR_LAST_LINES = 60
_ENDS_RAY = "ray stop --grace-period 5"
# A pod that is deleted, drained, or preempted: the starter finds the file and asks the program to stop, which Ray does
# not do. The dot is in brackets so that grep does not find itself.
_STOP_OF_HEAD = (
    'touch "$TRAINWAY_RUN/stop"; sleep 3; while grep -qs "start_program[.]py" /proc/[0-9]*/cmdline; do sleep 1; done; '
    f'rm -f "$TRAINWAY_RUN/stop"; {_ENDS_RAY}'
)
# The ranks of a program that is saving are on the workers. The loss of one worker alone stops nothing.
_STOP_OF_WORKER = f'sleep 5; while [ -e "$TRAINWAY_RUN/stop" ]; do sleep 1; done; {_ENDS_RAY}'


def render_ray_job(run: KubernetesRun) -> dict[str, Any]:
    """Render a run as a RayJob of KubeRay."""
    request, nodes = run.request, run.request.allocation.nodes
    head = _pod(run, name=HEAD, stop=_STOP_OF_HEAD)
    _leave_room_for_submitter(head)
    worker_group = {
        "groupName": "nodes",
        "replicas": nodes - 1,
        "minReplicas": nodes - 1,
        "maxReplicas": nodes - 1,
        "rayStartParams": _start_parameters(request),
        "template": _pod(run, name=WORKER, stop=_STOP_OF_WORKER),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": request.run,
            "namespace": run.share.namespace,
            "labels": dict(run.share.labels),
            "annotations": dict(run.placement.job_annotations),
        },
        "spec": {
            # Words with spaces or quotation marks do not reach the driver unchanged, so a file has the command.
            "entrypoint": f"sh {DIRECTORY / ENTRYPOINT}",
            "submissionMode": "SidecarMode",
            "backoffLimit": request.program.life_cycle.restarts,
            # Kueue requires it: the nodes of a cluster that stays would belong to nobody's job.
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": _SECONDS_FOR_LAST_LINES,
            "rayClusterSpec": {
                "rayVersion": _OLDEST_RAY,
                "authOptions": {"mode": "token"},
                "headGroupSpec": {"rayStartParams": _start_parameters(request), "template": head},
                **({"workerGroupSpecs": [worker_group]} if nodes > 1 else {}),
            },
        },
    }


def scripts(run: KubernetesRun) -> dict[str, str]:
    """Return the files that a RayJob needs beside those of its program, by their names.

    Ray starts one as the driver: the program's starter, which has not been asked to stop yet.
    """
    entrypoint = f'rm -f "$TRAINWAY_RUN/stop"\nexec {shlex.join(run.command)}\n'
    prepare = preparation(run)
    return {ENTRYPOINT: entrypoint, **({PREPARATION: prepare} if prepare else {})}


def preparation(run: KubernetesRun) -> str:
    """Return the script that gives a node the code and the packages of the run before Ray starts there.

    The ranks of the program, which Ray starts, import from both. Empty if the run has neither.
    """
    lines = []
    if run.request.code:
        fetch = f"python3 {DIRECTORY / SYNCED_CODE.name} {shlex.quote(run.request.code)} /tmp/trainway-code-{USER}"
        lines += [f"code=$({fetch}) || exit", 'export PYTHONPATH="$code${PYTHONPATH:+:$PYTHONPATH}"']
    if INSTALLER.name in run.files:
        shared = '${TRAINWAY_PACKAGES:+"--shared=$TRAINWAY_PACKAGES"}'
        install = f"python3 {DIRECTORY / INSTALLER.name} {DIRECTORY / LOCK} {shared}"
        lines += [f"packages=$({install}) || exit", 'export PATH="$packages/bin:$PATH"']
        lines += ['export PYTHONPATH="$packages${PYTHONPATH:+:$PYTHONPATH}"']
    return "".join(f"{line}\n" for line in lines)


def _pod(run: KubernetesRun, *, name: str, stop: str) -> dict[str, Any]:
    told = {"TRAINWAY_NODE_RANK": "0", "RAY_JOB_STOP_WAIT_TIME_S": str(KILL_RANKS_AFTER)}
    container = NodeContainer(
        name,
        # KubeRay starts Ray after this command, in the same shell.
        command=(".", str(DIRECTORY / PREPARATION)) if preparation(run) else (),
        environment=node_environment(run.on_nodes.directory, run.environment, told),
    )
    template = node_pod(run, container)
    template["spec"]["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", stop]}}}
    return in_one_group(run, template)


def _start_parameters(request: Request) -> dict[str, str]:
    """Return the options of `ray start`. KubeRay does not see GPUs that a pod claims.

    A pod with Neuron devices can claim its EFA devices, and has no GPUs.
    """
    accelerator = request.allocation.accelerator
    if not request.allocation.group.claims or accelerator is None or accelerator.vendor != "nvidia":
        return {}
    return {"num-gpus": str(request.allocation.ranks)}


def _leave_room_for_submitter(template: dict[str, Any]) -> None:
    """Lower the requests of the head's container, so that the container that submits the job fits on the same node."""
    requests = template["spec"]["containers"][0]["resources"]["requests"]
    requests["cpu"] = f"{int(requests['cpu'].removesuffix('m')) - _SUBMITTER_MILLICORES}m"
    requests["memory"] = f"{int(requests['memory'].removesuffix('Mi')) - _SUBMITTER_MIB}Mi"
