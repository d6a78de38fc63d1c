"""Volumes of the one file system, and of file systems that are made for claims."""

from __future__ import annotations

from tests.manifests.platforms import CATALOGUE, platform_of
from tests.seams.kubernetes.reader import read
from trainway.manifests import cluster_manifests
from trainway.manifests.lustre_volume import lustre_storage_class, lustre_volume

VERSION = platform_of().kubernetes_or_default.version


def test_a_claim_asks_for_as_much_as_the_file_system_has() -> None:
    volume, claim = lustre_volume(platform_of(storage={"lustre": {"capacity_tib": 4.8}}), "research")
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"] == {"storage": "4800Gi"}


def test_a_claim_on_what_is_elastic_still_finds_its_volume() -> None:
    storage = {"lustre": {"storage_class": "intelligent-tiering", "mirror": False}}
    volume, claim = lustre_volume(platform_of(storage=storage), "research")
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"] == {"storage": "1Pi"}
    for manifest in (volume, claim):
        assert read(manifest, VERSION) == []


def test_volumes_are_made_for_claims_only_where_that_is_chosen() -> None:
    assert lustre_storage_class(platform_of()) == []
    chosen = platform_of(storage={"lustre": {"dynamic_volumes": True, "throughput_mbps_per_tib": 500}})
    (made,) = [each for each in cluster_manifests(chosen, CATALOGUE).values() if each.get("kind") == "StorageClass"]
    assert read(made, VERSION) == []
    assert made["parameters"]["perUnitStorageThroughput"] == "500"
    assert all(isinstance(value, str) for value in made["parameters"].values()), "parameters are strings"
    assert made["parameters"]["extraTags"] == f"trainway={chosen.name}", "by which the driver's role lets it delete"
