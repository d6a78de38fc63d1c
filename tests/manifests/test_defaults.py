"""What the manifests say where the platform file says nothing, and where Kubernetes' or a chart's default is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.manifests.platforms import CATALOGUE, objects, platform_of
from tests.synthesis import ROOT
from trainway.manifests import cluster_manifests

EFA = "aws-efa-k8s-device-plugin"
ORCHESTRATORS = ("eks", "hyperpod-eks")


@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
def test_no_job_of_a_runtime_is_left_to_kubernetes_limit_of_six_failed_pods(orchestrator: str) -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy (read 2026-11-22)"""
    for runtime in objects(platform_of(orchestrator=orchestrator), "ClusterTrainingRuntime"):
        job_set = runtime["spec"]["template"]["spec"]
        assert job_set.get("failurePolicy", {}).get("maxRestarts", 0) > 0
        for replicated in job_set["replicatedJobs"]:
            job = replicated["template"]["spec"]
            assert job.get("backoffLimit") == 0, "JobSet starts the run again, and counts each failure once"
            assert [rule["action"] for rule in job.get("podFailurePolicy", {}).get("rules", [])] == ["Ignore"]


@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
@pytest.mark.parametrize(
    ("types", "keys"),
    [
        (["p5.48xlarge"], {"nvidia.com/gpu"}),
        (["trn2.48xlarge"], {"aws.amazon.com/neuron"}),
        (["p5.48xlarge", "trn2.48xlarge"], {"nvidia.com/gpu", "aws.amazon.com/neuron"}),
    ],
)
def test_efas_plugin_tolerates_the_taint_of_every_accelerator_with_efa(
    orchestrator: str, types: list[str], keys: set[str]
) -> None:
    groups = [{"name": f"group{at}", "instance_type": name, "count": 1} for at, name in enumerate(types)]
    file = ROOT / "delivery" / "values" / f"{EFA}.yaml"
    values: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    # Helm replaces a list by the one of a later file.
    values |= cluster_manifests(platform_of(orchestrator=orchestrator, node_groups=groups, teams=[]), CATALOGUE)[
        f"values/{EFA}"
    ]
    assert keys <= {each["key"] for each in values["tolerations"]}
