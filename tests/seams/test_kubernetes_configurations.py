"""Programs in the cluster accept the configurations that Trainway writes for them as texts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.seams.kubernetes.configurations import configuration_refusals, kueue_configuration, mig_configuration
from tests.seams.kubernetes.planted import Edit, drop, put, twice
from tests.seams.kubernetes.rendered import every_platform, launches
from tests.seams.seam import Planted, Seam


def test_kueue_accepts_its_configuration() -> None:
    assert configuration_refusals("kueue", kueue_configuration()) == []


def test_the_mig_manager_accepts_its_configuration_on_every_platform() -> None:
    found = {name: content for name in every_platform() if (content := mig_configuration(name))}
    assert found
    assert [refusal for each in found.values() for refusal in configuration_refusals("mig manager", each)] == []


def test_kueue_manages_every_kind_that_is_launched_where_it_shares_the_nodes() -> None:
    managed = set(kueue_configuration()["integrations"]["frameworks"])
    jobs = {
        f"{document['apiVersion'].partition('/')[0]}/{document['kind'].lower()}"
        for name, platform in every_platform().items()
        if platform.kueue and not platform.orchestrator.is_hyperpod
        for launch in launches(name)
        for document in launch.documents
        if document["kind"] == launch.kind
    }
    assert len(jobs) >= 3
    assert jobs <= managed


def _planted(program: str, content: Callable[[], Any], errors: dict[str, Edit]) -> tuple[Planted, ...]:
    def reading(edit: Edit | None) -> Callable[[Path], Sequence[str]]:
        def read(_: Path) -> Sequence[str]:
            document = copy.deepcopy(content())
            if edit:
                edit(document)
            return configuration_refusals(program, document)

        return read

    return tuple(Planted(error, sound=reading(None), broken=reading(edit)) for error, edit in errors.items())


SEAMS = (
    Seam(
        "Kueue's configuration",
        "delivery/values/kueue.yaml",
        "a schema of the types that Kueue decodes it into, unknown fields refused",
        _planted(
            "kueue",
            kueue_configuration,
            {
                "a field is misspelled": put("fairSharing.preemptionStrategy", ["LessThanInitialShare"]),
                "a framework is unknown": put("integrations.frameworks.0", "batch/jobs"),
                "a framework is there twice": twice("integrations.frameworks"),
                "the API version is removed": put("apiVersion", "config.kueue.x-k8s.io/v1beta1"),
                "a device class mapping has no name": drop("resources.deviceClassMappings.0.name"),
            },
        ),
        "Kueue is in no registry that the tests reach.",
    ),
    Seam(
        "the MIG manager's configuration",
        "trainway/manifests/mig.py",
        "a schema of what nvidia-mig-parted decodes, unknown fields refused",
        _planted(
            "mig manager",
            lambda: mig_configuration("mig"),
            {
                "a group has no fractions": drop("mig-configs.trainway-slices.0.mig-devices"),
                "a profile has no such name": put("mig-configs.trainway-slices.0.mig-devices.ten-gigabytes", 7),
                "a field is unknown": put("mig-configs.trainway-slices.0.device", "all"),
                "the version is missing": drop("version"),
            },
        ),
        "The program needs a GPU.",
    ),
)
