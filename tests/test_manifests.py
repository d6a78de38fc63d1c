"""What is put into a Kubernetes cluster is what Kubernetes and the operators there accept."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from delivery.content_hash import content_hash
from stacks.constructs.delivery.bundle import ImageParts, make_bundles
from tests.manifests.typed_models import misread
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.reader import read
from tests.seams.kubernetes.rendered import deployed
from tests.synthesis import EXAMPLES, resources, templates_of
from trainway.manifests import cluster_manifests
from trainway.manifests.efa_exporter import NAMESPACE as OF_EXPORTERS
from trainway.manifests.training_runtime import image_fact
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.sections.storage import Lustre

KUBERNETES = [file for file in EXAMPLES if load_platform(file).orchestrator.is_kubernetes]


@pytest.fixture(params=KUBERNETES, ids=lambda file: file.stem)
def platform(request: pytest.FixtureRequest) -> Platform:
    return load_platform(request.param)


def manifests(platform: Platform) -> dict[str, dict[str, Any]]:
    return cluster_manifests(platform, load_catalogue())


def objects(platform: Platform, kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests(platform).values() if each.get("kind") == kind]


def test_kubernetes_accepts_every_object(platform: Platform) -> None:
    need_definitions()
    applied = [deployed(each) for name, each in manifests(platform).items() if not name.startswith("values/")]
    assert len(applied) >= 4
    assert [refusal for each in applied for refusal in read(each, platform.kubernetes_or_default.version)] == []


def test_trainer_accepts_the_runtime(platform: Platform) -> None:
    from kubeflow_trainer_api.models import TrainerV1alpha1ClusterTrainingRuntime

    runtimes = objects(platform, "ClusterTrainingRuntime")
    # The one of every job, and one for each group that names an image.
    assert len(runtimes) == 1 + sum(group.image is not None for group in platform.node_groups)
    assert not any(misread(TrainerV1alpha1ClusterTrainingRuntime, each) for each in runtimes)


def test_job_tolerates_the_taints_of_the_nodes_and_no_others() -> None:
    """A cordoned node, and one that HyperPod is still checking, are tainted too."""
    (runtime,) = objects(
        load_platform(next(file for file in EXAMPLES if file.stem == "eks-p5")), "ClusterTrainingRuntime"
    )
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    tolerated = job["template"]["spec"]["template"]["spec"]["tolerations"]
    assert tolerated == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_objects_are_applied_after_what_they_are_in_and_refer_to(platform: Platform) -> None:
    applied: set[tuple[str, str]] = set()
    for name, manifest in manifests(platform).items():
        if not name.startswith("objects/"):
            continue
        spec, metadata = manifest.get("spec", {}), manifest["metadata"]
        needed = {("Namespace", metadata["namespace"])} if "namespace" in metadata else set()
        if role := manifest.get("roleRef"):
            needed.add((role["kind"], role["name"]))
        if "topologyName" in spec:
            needed.add(("Topology", spec["topologyName"]))
        if "cohortName" in spec:
            needed.add(("Cohort", spec["cohortName"]))
        if "clusterQueue" in spec:
            needed.add(("ClusterQueue", spec["clusterQueue"]))
        for group in spec.get("resourceGroups", ()):
            needed |= {("ResourceFlavor", flavor["name"]) for flavor in group["flavors"]}
        assert needed <= applied, name
        applied.add((manifest["kind"], metadata["name"]))
    assert len(applied) >= 4


def test_every_name_is_one_that_kubernetes_takes(platform: Platform) -> None:
    """RFC 1123: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (read 2026-11-21)."""
    for name, manifest in manifests(platform).items():
        if name.startswith("objects/"):
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", manifest["metadata"]["name"]), name


def test_every_namespace_has_its_own_volume_of_the_one_file_system(platform: Platform) -> None:
    namespaces = {each["metadata"]["name"] for each in objects(platform, "Namespace") if platform.storage.lustre}
    namespaces -= {OF_EXPORTERS}
    volumes = objects(platform, "PersistentVolume")
    claims = objects(platform, "PersistentVolumeClaim")
    assert namespaces == {claim["metadata"]["namespace"] for claim in claims}
    assert {v["spec"]["claimRef"]["namespace"] for v in volumes} == namespaces
    assert len({v["spec"]["csi"]["volumeHandle"] for v in volumes}) == len(volumes)
    assert all(v["spec"]["persistentVolumeReclaimPolicy"] == "Retain" for v in volumes)


def test_what_only_the_deploy_knows_is_what_the_cluster_stage_is_given(platform: Platform) -> None:
    lustre = (platform.storage.lustre or Lustre()).model_copy(update={"dynamic_volumes": True})
    everything = platform.model_copy(update={"storage": platform.storage.model_copy(update={"lustre": lustre})})
    asked = set(re.findall(r"\$\{(TRAINWAY_[A-Z_]+)\}", json.dumps(manifests(everything))))
    source = Path("stacks/clusters/cluster_stage.py").read_text(encoding="utf-8")
    named = {image_fact(group.image) for group in platform.node_groups if group.image}
    assert asked == {image_fact(DEFAULT_IMAGE), *named, *re.findall(r'"(TRAINWAY_[A-Z_]+)"', source)}


def test_device_plugins_run_only_where_their_device_is() -> None:
    platform = load_platform(next(file for file in EXAMPLES if file.stem == "eks-p5"))
    made = manifests(platform)
    assert made["values/aws-efa-k8s-device-plugin"]["supportedInstanceLabels"]["values"] == ["train"]
    affinity = json.dumps(made["values/nvidia-device-plugin"])
    assert '"train"' in affinity
    assert '"data"' not in affinity


# The bundles of all platforms are made in the same way, of other manifests.
one_platform = pytest.mark.parametrize(
    "platform",
    [
        pytest.param(each, marks=() if each.stem == "hyperpod-eks-shared" else pytest.mark.exhaustive)
        for each in KUBERNETES
    ],
    ids=lambda file: file.stem,
    indirect=True,
)
# No stage is built in these tests, so the image needs no arguments.
NO_ARGUMENTS = {DEFAULT_IMAGE: ImageParts({})}


@one_platform
def test_bundle_is_the_same_wherever_it_is_made(platform: Platform, tmp_path: Path) -> None:
    one, other = (make_bundles(tmp_path / name, manifests(platform), NO_ARGUMENTS) for name in ("one", "other"))
    for ours, theirs in ((one.mirror, other.mirror), (one.image, other.image), (one.cluster, other.cluster)):
        assert ours.content == theirs.content
    assert one.image.tag == other.image.tag


def test_a_pipeline_is_given_what_its_stages_use_and_nothing_that_would_run_them_again(
    platform: Platform, tmp_path: Path
) -> None:
    bundles = make_bundles(tmp_path, manifests(platform), NO_ARGUMENTS)
    image = {"container", "delivery", "image.json", "lifecycle_scripts", "pyproject.toml", "training"}
    assert {path.name for path in bundles.mirror.directory.iterdir()} == {"delivery", "lifecycle_scripts"}
    stages = {path.name for path in (bundles.mirror.directory / "delivery").iterdir()}
    assert {"mirror.lock.yaml", "mirror.sh", "mirror.yaml"} <= stages and "refresh_lock" not in stages
    assert {path.name for path in bundles.image.directory.iterdir()} == image
    # Of the scripts, only the authorities that every stage trusts, so that a change of the others builds nothing.
    for bundle in (bundles.mirror, bundles.image):
        scripts = bundle.directory / "lifecycle_scripts"
        assert {path.name for path in scripts.iterdir()} == {"certificates.py", "yours"}
        assert {path.name for path in (scripts / "yours").iterdir()} == {"certificates"}
    assert {path.name for path in bundles.cluster.directory.iterdir()} == {"delivery", "lifecycle_scripts", "manifests"}


@one_platform
def test_a_bundles_archive_has_its_files_and_is_the_same_wherever_it_is_made(
    platform: Platform, tmp_path: Path
) -> None:
    one, other = (make_bundles(tmp_path / name, manifests(platform), NO_ARGUMENTS).cluster for name in ("one", "other"))
    script = one.directory / "delivery" / "stage.sh"
    assert script.stat().st_mode & 0o100
    os.utime(other.directory / "delivery" / "stage.sh", (1, 1))
    archives = [bundle.archive(tmp_path / bundle.directory.parent.name / "zip") for bundle in (one, other)]
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with zipfile.ZipFile(archives[0]) as archive:
        assert archive.getinfo("delivery/stage.sh").external_attr >> 16 == 0o100755
        archive.extractall(tmp_path / "unpacked")
    assert content_hash(tmp_path / "unpacked", ["."]) == content_hash(one.directory, ["."])


# The arguments that say which stages of the image are built.
IMAGE = {"VARIANT": "cpu", "TRANSFORMER_ENGINE": "without", "NEMO": "without", "HYPERPOD_ELASTIC_AGENT": "without"}


@one_platform
def test_another_choice_of_versions_is_another_image_and_another_delivery_of_it(
    platform: Platform, tmp_path: Path
) -> None:
    one, other = (
        make_bundles(
            tmp_path / name, manifests(platform), {DEFAULT_IMAGE: ImageParts(IMAGE | {"PYTORCH_VERSION": name})}
        )
        for name in ("2.12.1", "2.13.0")
    )
    assert one.image.content != other.image.content
    assert one.image.tag != other.image.tag
    assert one.image.base_tag != other.image.base_tag
    assert one.mirror.content == other.mirror.content
    assert one.cluster.content == other.cluster.content


def test_task_governance_finds_its_teams_where_it_looks_for_them(tmp_path: Path) -> None:
    """HyperPod governs the jobs of a team in the namespace that it would make for it itself."""
    source = yaml.safe_load(next(file for file in EXAMPLES if file.stem == "hyperpod-eks-p5").read_text())
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(source | {"teams": [{"name": "research"}]}))
    governed = load_platform(file)
    assert {each["metadata"]["name"] for each in objects(governed, "Namespace")} == {"hyperpod-ns-research"}
    cluster = templates_of(file)["cluster"]
    associations = resources(cluster, "AWS::EKS::PodIdentityAssociation").values()
    assert "hyperpod-ns-research" in {each["Namespace"] for each in associations}
