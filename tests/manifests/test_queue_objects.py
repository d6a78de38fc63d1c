"""The definitions of the queues accept every object of any platform, and refuse every change that they should."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.hypothesis_profiles import examples
from tests.manifests.platforms import CATALOGUE, kai_platforms, platform_of, platforms
from tests.seams.kubernetes.definitions import definitions, need_definitions
from tests.seams.kubernetes.reader import read
from tests.synthesis import EXAMPLES
from trainway.manifests import cluster_manifests
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

VERSION = platform_of().kubernetes_or_default.version
few = examples(0.4)
GROUPS = {"kueue.x-k8s.io", "kai.scheduler", "scheduling.run.ai"}
TEAMS = [{"name": "research", "guarantee": {"p5.48xlarge": 2}}, {"name": "guests", "borrow": False}]


def of_queues(platform: Platform) -> list[dict[str, Any]]:
    """The objects whose API is the queues' own."""
    return [
        each
        for name, each in cluster_manifests(platform, CATALOGUE).items()
        if name.startswith("objects/") and each["apiVersion"].split("/")[0] in GROUPS
    ]


@pytest.fixture(scope="module", autouse=True)
def _definitions() -> None:
    need_definitions()


def refusals(manifest: dict[str, Any]) -> list[str]:
    return read(manifest, VERSION)


SAMPLES = [
    each for queues in ("kueue", "kai") for each in of_queues(platform_of(teams=TEAMS, kubernetes={"queues": queues}))
]


@few
@given(platforms())
def test_kueue_takes_every_object(platform: Platform) -> None:
    manifests = of_queues(platform)
    assert len(manifests) >= 8
    assert [refusal for each in manifests for refusal in refusals(each)] == []


@few
@given(kai_platforms())
def test_kai_takes_every_object(platform: Platform) -> None:
    manifests = of_queues(platform)
    assert len(manifests) >= 3
    assert [refusal for each in manifests for refusal in refusals(each)] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_object_of_an_example_is_taken(file: Path) -> None:
    platform = load_platform(file)
    manifests = of_queues(platform)
    assert bool(manifests) == (platform.kueue or platform.kai)
    assert [refusal for each in manifests for refusal in refusals(each)] == []


def test_every_kind_of_the_queues_is_rendered() -> None:
    defined = {kind for kind in definitions() if kind[0].split("/")[0] in GROUPS}
    assert {(each["apiVersion"], each["kind"]) for each in SAMPLES} == defined


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Everything in a document, with the way to it."""
    yield path, node
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(value, (*path, key))


def changed(manifest: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(manifest)
    target: Any = result
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return result


@pytest.mark.parametrize("manifest", SAMPLES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_what_the_api_does_not_know_is_refused(manifest: dict[str, Any]) -> None:
    for path, node in places(manifest):
        if isinstance(node, dict):
            assert refusals(changed(manifest, (*path, "unheard-of"), ["of"])), path


@pytest.mark.parametrize("manifest", SAMPLES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_what_is_of_another_type_is_refused(manifest: dict[str, Any]) -> None:
    for path, node in places(manifest):
        if path and path not in [("apiVersion",), ("kind",)]:
            assert refusals(changed(manifest, path, True)), path
            assert refusals(changed(manifest, path, None)), path
        if isinstance(node, int | float):
            assert refusals(changed(manifest, path, str(node))), path


def test_a_word_that_the_api_does_not_offer_is_refused() -> None:
    offered = {"effect", "policy", "reclaimWithinCohort", "withinClusterQueue"}
    words = [(each, path) for each in SAMPLES for path, _ in places(each) if path and path[-1] in offered]
    assert {path[-1] for _, path in words} == offered
    for manifest, path in words:
        assert refusals(changed(manifest, path, "Sometimes")), path
