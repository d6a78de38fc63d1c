"""What is put into a Kubernetes cluster is what Kubernetes and the operators there accept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from kubeflow_trainer_api.models import TrainerV1alpha1ClusterTrainingRuntime

from stacks.constructs.bundle import make_bundle
from tests.synthesis import EXAMPLES
from trainway.manifests import cluster_manifests
from trainway.spec.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

KUBERNETES = [file for file in EXAMPLES if load_platform(file).orchestrator.is_kubernetes]


@pytest.fixture(params=KUBERNETES, ids=lambda file: file.stem)
def platform(request: pytest.FixtureRequest) -> Platform:
    return load_platform(request.param)


def manifests(platform: Platform) -> dict[str, dict[str, Any]]:
    return cluster_manifests(platform, load_catalogue())


def objects(platform: Platform, kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests(platform).values() if each.get("kind") == kind]


def test_kubernetes_accepts_every_object(platform: Platform) -> None:
    checked = 0
    for name, manifest in manifests(platform).items():
        if name.startswith("objects/") and "kubeflow" not in manifest["apiVersion"]:
            kubernetes_validate.validate(manifest, platform.kubernetes_or_default.version, strict=True)
            checked += 1
    assert checked >= 4


def test_trainer_accepts_the_runtime(platform: Platform) -> None:
    (runtime,) = objects(platform, "ClusterTrainingRuntime")
    read = TrainerV1alpha1ClusterTrainingRuntime.from_dict(runtime)
    assert read is not None
    assert json.loads(json.dumps(read.to_dict()))["spec"]["template"] == runtime["spec"]["template"]


def test_every_namespace_has_its_own_volume_of_the_one_file_system(platform: Platform) -> None:
    namespaces = {each["metadata"]["name"] for each in objects(platform, "Namespace")}
    volumes = objects(platform, "PersistentVolume")
    claims = objects(platform, "PersistentVolumeClaim")
    assert namespaces == {claim["metadata"]["namespace"] for claim in claims}
    assert {v["spec"]["claimRef"]["namespace"] for v in volumes} == namespaces
    assert len({v["spec"]["csi"]["volumeHandle"] for v in volumes}) == len(volumes)
    assert all(v["spec"]["persistentVolumeReclaimPolicy"] == "Retain" for v in volumes)


def test_what_only_the_deploy_knows_is_what_the_cluster_stage_is_given(platform: Platform) -> None:
    asked = set(re.findall(r"\$\{(TRAINWAY_[A-Z_]+)\}", json.dumps(manifests(platform))))
    source = Path("stacks/constructs/cluster_stage.py").read_text(encoding="utf-8")
    assert asked == set(re.findall(r'"(TRAINWAY_[A-Z_]+)"', source))


def test_device_plugins_run_only_where_their_device_is() -> None:
    platform = load_platform(next(file for file in EXAMPLES if file.stem == "eks-p5"))
    made = manifests(platform)
    assert made["values/aws-efa-k8s-device-plugin"]["supportedInstanceLabels"]["values"] == ["train"]
    affinity = json.dumps(made["values/nvidia-device-plugin"])
    assert '"train"' in affinity
    assert '"data"' not in affinity


def test_bundle_is_the_same_wherever_it_is_made(platform: Platform, tmp_path: Path) -> None:
    one, other = (make_bundle(tmp_path / name, manifests(platform)) for name in ("one", "other"))
    assert (one.content, one.image_content) == (other.content, other.image_content)
    assert {path.name for path in one.directory.iterdir()} == {
        "constraints.txt",
        "container",
        "delivery",
        "lifecycle_scripts",
        "manifests",
        "pyproject.toml",
        "training",
    }
