"""What a launch and a workspace submit: every kind and option occurs, and a member of the team may submit it."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from tests.manifests.platforms import CATALOGUE
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.rendered import PLURALS, every_launch, every_platform
from tests.security.test_personas import may
from trainway.launch.kubernetes import KINDS, KubernetesOptions
from trainway.manifests.namespace import namespace_of
from trainway.spec.derived.charts import chart_names
from trainway.spec.derived.groups import members_group
from trainway.spec.platform import Platform

PLATFORMS = tuple(sorted(every_platform()))


@pytest.fixture(scope="module", autouse=True)
def _definitions() -> None:
    need_definitions()


@pytest.mark.exhaustive
def test_every_kind_is_launched_and_each_option_is_taken_somewhere() -> None:
    launched: Counter[str] = Counter()
    for name in PLATFORMS:
        for each in every_launch(name):
            if each.documents:
                options = [word.partition("=")[0] for word in each.what.split() if "=" in word]
                launched.update([each.kind, *options])
    every = {each.name for each in fields(KubernetesOptions)} - {"kind"}
    assert {*KINDS, "workspace", *every} <= set(launched)


@pytest.mark.parametrize("name", [name for name in PLATFORMS if every_platform()[name].teams])
def test_a_member_of_the_team_may_create_and_delete_what_a_launch_submits(name: str) -> None:
    platform = every_platform()[name]
    team = platform.teams[0]
    kinds = {each["kind"] for launch in every_launch(name) for each in launch.documents} - not_installed(platform)
    assert {"ConfigMap", "Job", "Secret"} < kinds
    for kind in kinds:
        for verb in ("create", "patch", "get", "delete"):
            namespace = namespace_of(platform, team)
            assert may(platform, members_group(team.name), verb, PLURALS[kind], namespace), (kind, verb)


def not_installed(platform: Platform) -> set[str]:
    """Return the kinds whose operator the platform does not install."""
    installed = set(chart_names(platform, CATALOGUE))
    operators = {"TrainJob": "kubeflow-trainer", "MPIJob": "mpi-operator", "PyTorchJob": "training-operators"}
    operators |= {"JobSet": "kubeflow-trainer", "RayJob": "kuberay-operator"}
    missing = {kind for kind, chart in operators.items() if chart not in installed}
    operated = platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.training_operator
    return missing if operated else missing | {"HyperPodPyTorchJob"}
