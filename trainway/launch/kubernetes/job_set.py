"""A run as a JobSet: one Job whose pods are the nodes, under names that the pods find each other by.

Kubeflow Trainer makes a JobSet of each TrainJob, so both kinds share this specification. A JobSet of its own can be
kept for hours after its end, and needs no runtime.
https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (read 2026-11-23)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.process import node_command, node_environment, rank_options, restarts_of_object
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.manifests.life_cycle import restarted_as_a_whole, success_policy

NODE = "node"
"""The name of the replicated job and of its container."""


def render_job_set(run: KubernetesRun) -> dict[str, Any]:
    """Render a run as a JobSet."""
    nodes = run.nodes.started
    options = rank_options(run.request, run.nodes.nnodes, first_node(run), indexed=True)
    spec = job_set_spec(
        run,
        command=node_command(run.command, run.on_nodes.code),
        environment=node_environment(run.on_nodes.directory, run.environment, options),
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
            "name": run.request.run,
            "namespace": run.share.namespace,
            "labels": dict(run.share.labels),
            "annotations": dict(run.placement.job_annotations),
        },
        "spec": {**spec, "ttlSecondsAfterFinished": run.keep_seconds},
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
    annotations = dict(run.placement.job_annotations)
    if run.nodes.continues and run.share.sharing == "kai":
        # The number of pods that KAI leaves the job: docs/kai.md.
        annotations["kai.scheduler/batch-min-member"] = str(run.nodes.least)
    metadata = {
        **({"labels": dict(labels)} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }
    job = {
        **({"metadata": metadata} if metadata else {}),
        "spec": {"template": node_pod(run, NodeContainer(NODE, command, environment))},
    }
    if run.nodes.continues:
        job["spec"]["successPolicy"] = success_policy(run.nodes.least)
    restarts, fatal = restarts_of_object(run.request), run.request.program.fatal_statuses
    return restarted_as_a_whole({"name": NODE, "template": job}, restarts, fatal)


def first_node(run: KubernetesRun) -> str:
    """Return the host name of the first node's pod, as the pod finds it in its own /etc/hosts.

    So the pod knows that it is the first one before any DNS server does.
    https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (EnableDNSHostnames)
    https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (managedHostsFileContent; both
    read 2026-11-21)
    """
    return f"{run.request.run}-{NODE}-0-0.{run.request.run}.{run.share.namespace}.svc.cluster.local"
