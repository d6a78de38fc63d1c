"""The list of what is mirrored is pinned, sourced and consistent."""

import copy
import re

import pytest

from delivery.mirror_list import lines
from tests.data_files import read_yaml
from tests.delivery.conftest import (
    DOCUMENT,
    EKS,
    EVERY_CHART,
    HYPERPOD_EKS,
    MANIFEST,
    REFERENCE,
    REGISTRY,
    ROOT,
    listed,
)

LOCK = read_yaml(ROOT / "delivery/mirror.lock.yaml")

PUBLISHERS = [*DOCUMENT["signers"], *DOCUMENT["unsigned"]]
ENTRIES = [*DOCUMENT["tools"].values(), *DOCUMENT["images"], *DOCUMENT["charts"]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.get("chart") or entry.get("name") or entry["url"])
def test_every_entry_is_pinned_and_names_its_source_and_date(entry):
    version = entry.get("version") or entry["tag"]
    assert re.fullmatch(
        r"v?\d+\.\d+\.\d+(\.\d+)?(-[0-9a-f]{7}|-eksbuild\.\d+|-\d+\.\d+\.\d+-distroless)?|v1-[0-9a-f]{7}", version
    )
    assert entry["source"].startswith("https://")
    assert entry["read"].isoformat()


def test_every_image_has_a_signer_or_the_reason_why_its_signature_is_not_verified():
    for image in DOCUMENT["images"]:
        assert [image["repository"].startswith(each["repositories"]) for each in PUBLISHERS].count(True) == 1, image
        signed = any(image["repository"].startswith(each["repositories"]) for each in DOCUMENT["signers"])
        assert bool(lines(["signer", image["name"]], DOCUMENT, LOCK)) == signed
    for each in PUBLISHERS:
        assert any(image["repository"].startswith(each["repositories"]) for image in DOCUMENT["images"]), each
        assert each["source"].startswith("https://") and each["read"].isoformat()
        assert each.get("reason") or (each["identity"] and each["issuer"].startswith("https://"))


def test_the_lock_has_the_versions_of_the_list_and_nothing_else():
    """If not, run `python -m delivery.refresh_lock`."""
    assert {name: each["tag"] for name, each in LOCK["images"].items()} == {
        image["name"]: image["tag"] for image in DOCUMENT["images"]
    }
    assert {name: each["version"] for name, each in LOCK["charts"].items()} == {
        chart["chart"]: chart["version"] for chart in DOCUMENT["charts"] if chart.keys() & {"repository", "oci"}
    }


def test_digests_are_sha256():
    digests = [image["digest"] for image in LOCK["images"].values() if image["digest"]]
    assert digests
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)
    assert all(re.fullmatch(r"[0-9a-f]{64}", chart["sha256"] or 64 * "0") for chart in LOCK["charts"].values())


def test_what_the_lock_has_is_printed_for_the_stage():
    lock = copy.deepcopy(LOCK)
    lock["images"]["kueue"]["digest"], lock["charts"]["kueue"]["sha256"] = f"sha256:{64 * 'a'}", 64 * "b"
    [image] = lines(["images", "kueue"], DOCUMENT, lock)
    assert image.split("\t")[1] == f"registry.k8s.io/kueue/kueue@sha256:{64 * 'a'}"
    [chart] = lines(["charts", "kueue"], DOCUMENT, lock)
    assert chart.split("\t")[4] == 64 * "b"
    lock["images"]["kueue"]["digest"] = lock["charts"]["kueue"]["sha256"] = None
    [image], [chart] = (lines([each, "kueue"], DOCUMENT, lock) for each in ("images", "charts"))
    assert image.split("\t")[1].startswith("registry.k8s.io/kueue/kueue:v") and chart.split("\t")[4] == "-"


@pytest.mark.parametrize(("verb", "kind", "key"), [("images", "images", "tag"), ("charts", "charts", "version")])
def test_a_version_that_the_lock_does_not_have_is_refused_with_the_command_to_run(capsys, verb, kind, key):
    lock = copy.deepcopy(LOCK)
    lock[kind]["kueue"][key] = "v0.0.1"
    del lock[kind]["dra-driver-nvidia-gpu"]
    with pytest.raises(SystemExit, match="2"):
        lines([verb, "kueue", "kubeflow-trainer", "dra-driver-nvidia-gpu"], DOCUMENT, lock)
    said = capsys.readouterr().err
    for name, has in (("kueue", "v0.0.1"), ("dra-driver-nvidia-gpu", "none")):
        assert re.search(rf"{kind.removesuffix('s')} {name} v?\d+\.\d+\.\d+ \(it has {has}\)", said)
    assert "kubeflow" not in said
    names = re.search(r"Run `python -m delivery\.refresh_lock ([^`]*)`", said)
    assert names and set(names[1].split()) == {"kueue", "dra-driver-nvidia-gpu"}
    # The rest of the list is not concerned.
    assert lines([verb, "kubeflow-trainer"], DOCUMENT, lock)


def test_every_mirrored_image_is_used_by_a_chart_and_the_other_way_round():
    used = {value["image"] for chart in DOCUMENT["charts"] for value in chart["image_values"]}
    assert used == {image["name"] for image in DOCUMENT["images"]}


def test_a_git_charts_version_carries_its_commit():
    for chart in DOCUMENT["charts"]:
        if "git" in chart:
            assert chart["version"].endswith(chart["git"]["commit"][:7])


def test_a_manifest_is_pinned_by_its_checksum_and_its_address_by_a_commit():
    manifests = [chart["manifest"] for chart in DOCUMENT["charts"] if "manifest" in chart]
    assert manifests
    for manifest in manifests:
        assert re.fullmatch(r"[0-9a-f]{64}", manifest["sha256"])
        assert re.search(r"/[0-9a-f]{40}/", manifest["url"])


def test_every_image_of_a_chart_is_named_by_the_values_that_point_it_at_its_copy():
    for chart in DOCUMENT["charts"]:
        for value in chart["image_values"]:
            keys = {"image", "tag", "folder" if "folder" in value else "repository"}
            assert ({"image", "reference"} if "manifest" in chart else keys) <= value.keys(), chart["chart"]


@pytest.mark.parametrize("names", [EKS, HYPERPOD_EKS, EVERY_CHART, "kueue", "kubeflow-trainer kueue", ""])
def test_charts_are_listed_in_the_order_they_are_asked_for(names: str):
    listed = [line.split("\t") for line in lines(["charts", *names.split()], DOCUMENT, LOCK)]
    assert [fields[0] for fields in listed] == names.split()
    assert all(len(fields) == 9 and all(fields) for fields in listed)


@pytest.mark.parametrize(
    ("names", "images"),
    [
        ("kubeflow-trainer", ["trainer-controller-manager", "jobset"]),
        ("neuron-helm-chart", ["neuron-device-plugin"]),
        ("mpi-operator kueue", ["kueue", "mpi-operator"]),
        ("hyperpod-helm-chart", []),
        (EVERY_CHART, [image["name"] for image in DOCUMENT["images"]]),
    ],
)
def test_only_the_images_that_the_chosen_charts_name_are_listed(names: str, images: list[str]):
    assert [line.split("\t")[0] for line in lines(["images", *names.split()], DOCUMENT, LOCK)] == images


def test_charts_that_do_not_exist_are_all_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        lines(["charts", "kueue", "kuueue", "argo"], DOCUMENT, LOCK)
    assert "mirror.yaml has no chart kuueue, argo; it has hyperpod-helm-chart, " in capsys.readouterr().err


def test_charts_take_their_images_from_the_copies():
    words = lines(["set", "neuron-helm-chart", f"{REGISTRY}/atlas/mirror", "us-west-2"], DOCUMENT, LOCK)
    assert words[1::2] == [
        f"devicePlugin.image.tag={listed('images', 'neuron-device-plugin')['tag']}",
        f"devicePlugin.image.repository={REGISTRY}/atlas/mirror/neuron-device-plugin",
    ]
    words = lines(["set", "kueue", f"{REGISTRY}/atlas/mirror", "us-west-2"], DOCUMENT, LOCK)
    assert f"controllerManager.manager.image.repository={REGISTRY}/atlas/mirror/kueue" in words


def test_jobsets_image_has_its_registry_in_the_repository():
    """JobSet's chart writes `REPOSITORY:TAG`, and what names no registry there comes from Docker Hub."""
    words = lines(["set", "kubeflow-trainer", f"{REGISTRY}/atlas/mirror", "us-west-2"], DOCUMENT, LOCK)
    assert [word for word in words if word.startswith("jobset.image.")] == [
        f"jobset.image.tag={listed('images', 'jobset')['tag']}",
        f"jobset.image.repository={REGISTRY}/atlas/mirror/jobset",
    ]


def test_a_chart_that_names_its_images_itself_is_told_where_they_are_and_only_once():
    words = lines(["set", "kai-scheduler", f"{REGISTRY}/atlas/mirror", "us-west-2"], DOCUMENT, LOCK)
    tag = listed("images", "kai-scheduler/operator")["tag"]
    assert words[1::2] == [f"global.tag={tag}", f"global.registry={REGISTRY}/atlas/mirror/kai-scheduler"]


def test_images_that_a_chart_finds_by_the_last_word_have_it_where_they_come_from():
    for chart in DOCUMENT["charts"]:
        for value in chart["image_values"]:
            (image,) = (each for each in DOCUMENT["images"] if each["name"] == value["image"])
            if "folder" in value:
                assert image["repository"].rpartition("/")[2] == image["name"].rpartition("/")[2]


def test_a_manifest_takes_its_image_from_the_copy_and_is_otherwise_as_published(tmp_path):
    (tmp_path / "published.yaml").write_text(MANIFEST)
    written = lines(
        ["manifest", "mpi-operator", f"{REGISTRY}/atlas/mirror", str(tmp_path / "published.yaml")], DOCUMENT, LOCK
    )
    copy = f"  - image: {REGISTRY}/atlas/mirror/mpi-operator:{listed('images', 'mpi-operator')['tag']}"
    assert written == [copy if "mpioperator/" in line else line for line in MANIFEST.splitlines()]
    assert copy in written


def test_a_manifest_without_the_image_is_refused(tmp_path, capsys):
    (tmp_path / "published.yaml").write_text(MANIFEST.replace(REFERENCE, f"{REFERENCE}.9"))
    with pytest.raises(SystemExit, match="2"):
        lines(
            ["manifest", "mpi-operator", f"{REGISTRY}/atlas/mirror", str(tmp_path / "published.yaml")], DOCUMENT, LOCK
        )
    assert f"the manifest of mpi-operator has no `image: {REFERENCE}`" in capsys.readouterr().err
