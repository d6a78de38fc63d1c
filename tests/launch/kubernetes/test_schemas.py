"""What is submitted is what Kubernetes and the operators accept."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob

from tests.launch.kubernetes.platforms import PLATFORMS, platform_named, pods_of, request_for
from tests.launch.kubernetes.trainer import pod_template_of
from tests.manifests.platforms import CATALOGUE
from tests.manifests.queue_schemas import refusals
from tests.manifests.typed_models import misread
from trainway.launch.kubernetes import KINDS, Kind, KubernetesOptions, render_documents

SCHEMAS = "job_schemas.yaml"
OPTIONS: list[dict[str, Any]] = [{}, {"min_nodes": 1}, {"code": "s3://atlas-data/runs/code/0.tar.gz"}]
CASES = [
    (platform, kind, options)
    for platform in PLATFORMS
    for kind in KINDS
    for options in OPTIONS
    if (kind != "HyperPodPyTorchJob" or platform == "governance") and (kind != "MPIJob" or "min_nodes" not in options)
]


def documents(platform: str, kind: Kind, options: dict[str, Any]) -> list[dict[str, Any]]:
    if kind == "HyperPodPyTorchJob":
        options = {"slow_step_seconds": 30, "loss_above": 12, **options}
    if platform in ("kueue", "kai"):
        options = {"priority": "high", **options}
    return render_documents(request_for(platform), CATALOGUE, KubernetesOptions(kind=kind, **options))


@pytest.mark.parametrize(("platform", "kind", "options"), CASES)
def test_the_operator_and_kubernetes_accept_it(platform: str, kind: Kind, options: dict[str, Any]) -> None:
    config_map, job = documents(platform, kind, options)
    version = platform_named(platform).kubernetes_or_default.version
    kubernetes_validate.validate(config_map, version, strict=True)
    if kind == "TrainJob":
        assert not misread(TrainerV1alpha1TrainJob, job)
        templates = [pod_template_of(job, platform_named(platform))]
    else:
        assert refusals(job, SCHEMAS) == []
        templates = pods_of(job)
    for template in templates:
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] = {"name": "pod", **template["metadata"]}
        kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "TrainJob"])
def test_a_field_that_the_kind_does_not_have_is_refused(kind: Kind) -> None:
    _, job = documents("governance", kind, {})
    job["spec"]["minReplicas"] = 1
    assert refusals(job, SCHEMAS) == [
        "$.spec: Additional properties are not allowed ('minReplicas' was unexpected)",
    ]
