"""A run as HyperPodPyTorchJob, for HyperPod's training operator, which watches its log and replaces its processes.

https://github.com/aws/sagemaker-hyperpod-cli/blob/main/src/sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html (both read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.log_rules import log_rules
from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.process import STOP_SECONDS, node_command, node_environment
from trainway.launch.kubernetes.run import KubernetesRun

# Where the operator reaches its agent: src/hyperpod_elastic_agent/run.py of hyperpod-elastic-agent 1.1.3.
_AGENT_PORT = 8080
# Over how long the operator counts, as in AWS's own example:
# https://github.com/awslabs/awsome-distributed-training/blob/main/3.test_cases/pytorch/FSDP/kubernetes/llama3_1_8b-fsdp-hpto.yaml
# (read 2026-11-21)
_COUNTED_SECONDS = 21600


def render_hyperpod_pytorch_job(run: KubernetesRun) -> dict[str, Any]:
    """Render a run as the HyperPodPyTorchJob of HyperPod's training operator."""
    request, labels = run.request, dict(run.share.labels)
    allocation = request.allocation
    life_cycle = request.program.life_cycle
    patterns = request.program.log_patterns
    # The operator tells its agents how they find each other, and how many they are.
    ranks = {"PET_NNODES": str(allocation.nodes), "PET_NPROC_PER_NODE": str(allocation.ranks)}
    # The agent ends without NNODES, until the operator's first request has the number of nodes:
    # hyperpod_elastic_agent/rendezvous/hyperpod_rendezvous_backend.py of hyperpod-elastic-agent 1.1.3.
    ranks["NNODES"] = ranks["PET_NNODES"]
    container = NodeContainer(
        "pytorch",
        command=node_command(run.command, run.on_nodes.code),
        environment=node_environment(run.on_nodes.directory, run.environment, ranks),
        ports=[{"containerPort": _AGENT_PORT}],
    )
    template = node_pod(run, container)
    # AWS's own template has the queue at the pods as well.
    template["metadata"]["labels"] |= labels
    return {
        "apiVersion": "sagemaker.amazonaws.com/v1",
        "kind": "HyperPodPyTorchJob",
        "metadata": {"name": request.run, "namespace": run.share.namespace, "labels": labels},
        "spec": {
            "nprocPerNode": str(allocation.ranks),
            "runPolicy": {
                "cleanPodPolicy": "None",
                # Every restart, of processes and of the whole job.
                "jobMaxRetryCount": (life_cycle.restarts + 1) * (life_cycle.process_restarts + 1) - 1,
                "restartPolicy": {
                    "numRestartBeforeFullJobRestart": life_cycle.process_restarts,
                    "evalPeriodSeconds": _COUNTED_SECONDS,
                    "maxFullJobRestarts": life_cycle.restarts,
                },
                # The default of AWS's own client is 0: the job and its logs would be gone when it ends.
                # https://github.com/aws/sagemaker-hyperpod-cli/blob/main/src/sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py
                # (RunPolicy, read 2026-11-22)
                "ttlSecondsAfterFinished": run.keep_seconds,
                **({"logMonitoringConfiguration": log_rules(patterns, run.options)} if patterns else {}),
            },
            **_replicas(run, template),
        },
    }


def _replicas(run: KubernetesRun, template: dict[str, Any]) -> dict[str, Any]:
    """Return one set of pods, or two for an elastic job: the nodes that it requires, and those that it can lose.

    The spare pods are beyond the replicas, and Kueue has the quota of both: `ReplicaSpec` of the model in
    sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py of sagemaker-hyperpod 3.12.0.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-elastic-training.html (read 2026-11-21)
    """
    options = run.options
    nodes, least = run.request.allocation.nodes, options.min_nodes
    spares = {"spares": options.spare_nodes} if options.spare_nodes else {}
    if least is None or least == nodes:
        return {"replicaSpecs": [{"name": "pods", "replicas": nodes, **spares, "template": template}]}
    return {
        "elasticPolicy": {
            "minReplicas": least,
            "maxReplicas": nodes,
            "replicaIncrementStep": 1,
            # SIGUSR1 comes before, which the job takes as it takes SIGTERM.
            "gracefulShutdownTimeoutInSeconds": STOP_SECONDS,
        },
        "replicaSpecs": [
            {"name": "needed", "replicas": least, **spares, "template": _with_priority(template, "high")},
            {"name": "lent", "replicas": nodes - least, "template": _with_priority(template, "low")},
        ],
    }


def _with_priority(template: dict[str, Any], priority: str) -> dict[str, Any]:
    """Give the pods of a template a PriorityClass: trainway/manifests/priority_classes.py."""
    return {**template, "spec": {"priorityClassName": priority, **template["spec"]}}
