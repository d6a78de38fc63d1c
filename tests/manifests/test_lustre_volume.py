"""Volumes of the platform's file systems, and of file systems that are made for claims."""

from __future__ import annotations

import json

from tests.manifests.platforms import CATALOGUE, platform_of
from tests.seams.kubernetes.reader import read
from trainway.manifests import cluster_manifests
from trainway.manifests.lustre_volume import claim_of, lustre_storage_class, lustre_volumes

VERSION = platform_of().kubernetes_or_default.version


def test_a_claim_asks_for_as_much_as_the_file_system_has() -> None:
    volume, claim = lustre_volumes(platform_of(storage={"lustre": {"capacity_tib": 4.8}}), "research")
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"] == {"storage": "4800Gi"}


def test_a_claim_on_what_is_elastic_still_finds_its_volume() -> None:
    storage = {"lustre": {"storage_class": "intelligent-tiering", "mirror": False}}
    volume, claim = lustre_volumes(platform_of(storage=storage), "research")
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"] == {"storage": "1Pi"}
    for manifest in (volume, claim):
        assert read(manifest, VERSION) == []


def test_another_file_system_has_volumes_beside_those_of_the_former_one() -> None:
    first = {"capacity_tib": 4.8}
    alone = lustre_volumes(platform_of(storage={"lustre": first}), "research")
    moved = platform_of(storage={"lustre": {"capacity_tib": 9.6, "generation": 2}, "former_lustre": first})
    new, new_claim, old, old_claim = lustre_volumes(moved, "research")
    assert (
        [each["metadata"]["name"] for each in (new_claim, old_claim)] == [claim_of(2), claim_of(1)] == ["fsx-2", "fsx"]
    )
    assert new["metadata"]["name"] != old["metadata"]["name"]
    assert new_claim["spec"]["volumeName"] == new["metadata"]["name"]
    for manifest in (new, new_claim):
        assert read(manifest, VERSION) == []
    # The old one's are what they were but for where the delivery reads the same facts: their fields cannot change.
    facts = json.dumps([old, old_claim]).replace("TRAINWAY_FORMER_FSX", "TRAINWAY_FSX")
    assert json.loads(facts) == alone


def test_jobs_of_the_cluster_mount_the_file_system_that_jobs_use() -> None:
    moved = platform_of(storage={"lustre": {"generation": 2}, "former_lustre": {}})
    (runtime,) = [
        each for each in cluster_manifests(moved, CATALOGUE).values() if each.get("kind") == "ClusterTrainingRuntime"
    ]
    assert '{"claimName": "fsx-2"}' in json.dumps(runtime)


def test_volumes_are_made_for_claims_only_where_that_is_chosen() -> None:
    assert lustre_storage_class(platform_of()) == []
    chosen = platform_of(storage={"lustre": {"dynamic_volumes": True, "throughput_mbps_per_tib": 500}})
    (made,) = [each for each in cluster_manifests(chosen, CATALOGUE).values() if each.get("kind") == "StorageClass"]
    assert read(made, VERSION) == []
    assert made["parameters"]["perUnitStorageThroughput"] == "500"
    assert all(isinstance(value, str) for value in made["parameters"].values()), "parameters are strings"
    assert made["parameters"]["extraTags"] == f"trainway={chosen.name}", "by which the driver's role lets it delete"
