"""A run as a JobSet: one Job whose pods are the nodes, under names that the pods find each other by.

Kubeflow Trainer makes a JobSet of each TrainJob, so both kinds share this specification. A JobSet of its own can be
kept for hours after its end, and needs no runtime.
https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (read 2026-11-23)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.node_program import node_program
from trainway.launch.kubernetes.options import keep_seconds
from trainway.launch.kubernetes.placement import close_together_for_kai
from trainway.launch.kubernetes.process import (
    counted_restarts,
    node_command,
    node_environment,
    restarts_of_object,
    torchrun_options,
)
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.program.lost_nodes import least_nodes, started_nodes, torchrun_nodes
from trainway.launch.program.request import Request
from trainway.manifests.life_cycle import restarted_as_a_whole, success_policy

NODE = "node"
"""The name of the replicated job and of its container."""


def render_job_set(run: KubernetesRun) -> dict[str, Any]:
    """Render a run as a JobSet."""
    request, options, catalogue, namespace = run.request, run.options, run.catalogue, run.share.namespace
    nodes = started_nodes(request, options)
    torchrun = torchrun_options(request, torchrun_nodes(request, options), first_node(request, namespace))
    spec = job_set_spec(
        run,
        command=node_command(node_program(request, options), request.code_to_import),
        environment=node_environment(request, torchrun | counted_restarts(request)),
    )
    # Trainer sets both for a TrainJob. Without them, a Job has one pod.
    spec["replicatedJobs"][0]["template"]["spec"] |= {
        "completionMode": "Indexed",
        "parallelism": nodes,
        "completions": nodes,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": dict(run.share.labels),
            "annotations": close_together_for_kai(request, options, catalogue),
        },
        "spec": {**spec, "ttlSecondsAfterFinished": keep_seconds(request)},
    }


def job_set_spec(
    run: KubernetesRun,
    *,
    labels: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    environment: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the specification of a JobSet with one replicated job. When one of its pods fails, all pods restart.

    `labels` are those of the replicated job.
    """
    request, options = run.request, run.options
    annotations = close_together_for_kai(request, options, run.catalogue)
    if options.continues and run.share.sharing == "kai":
        # The number of pods that KAI leaves the job: docs/kai.md.
        annotations["kai.scheduler/batch-min-member"] = str(least_nodes(request, options))
    metadata = {
        **({"labels": dict(labels)} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }
    job = {
        **({"metadata": metadata} if metadata else {}),
        "spec": {"template": node_pod(run, NodeContainer(NODE, command, environment))},
    }
    if options.continues:
        job["spec"]["successPolicy"] = success_policy(least_nodes(request, options))
    restarts, fatal = restarts_of_object(request), request.program.fatal_statuses
    return restarted_as_a_whole({"name": NODE, "template": job}, restarts, fatal)


def first_node(request: Request, namespace: str) -> str:
    """Return the host name of the first node's pod, as the pod finds it in its own /etc/hosts.

    So the pod knows that it is the first one before any DNS server does.
    https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (EnableDNSHostnames)
    https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (managedHostsFileContent; both
    read 2026-11-21)
    """
    return f"{request.run}-{NODE}-0-0.{request.run}.{namespace}.svc.cluster.local"
