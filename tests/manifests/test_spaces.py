"""A team's spaces shut down when they are idle, and use the quota of their team."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.manifests.platforms import objects, platform_of
from tests.synthesis import ROOT
from trainway.spec.platform import Platform

QUEUE = "kueue.x-k8s.io/queue-name"
TEAMS = [{"name": "research"}]
# The space of the page, as a member of the team writes it.
PAGE = (ROOT / "docs" / "workspace.md").read_text(encoding="utf-8")


def with_spaces(**hyperpod: Any) -> Platform:
    groups = [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}]
    asked = {"spaces": True, **hyperpod}
    return platform_of(orchestrator="hyperpod-eks", teams=TEAMS, hyperpod=asked, node_groups=groups)


def space(**spec: Any) -> dict[str, Any]:
    (text,) = re.findall(r"```yaml\n(apiVersion: workspace.jupyter.org.*?)```", PAGE, re.DOTALL)
    found = yaml.safe_load(text)
    found["spec"] |= spec
    return {**found, "spec": {key: value for key, value in found["spec"].items() if value is not None}}


def refused(platform: Platform, workspace: dict[str, Any]) -> set[str]:
    """Return the names of the policies that refuse a space in its namespace."""
    import cel

    known = {"object": workspace, "request": {"namespace": workspace["metadata"]["namespace"]}}
    policies = [each for each in objects(platform, "ValidatingAdmissionPolicy") if "space" in each["metadata"]["name"]]
    assert policies
    names = set()
    for policy in policies:
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert (rule["apiGroups"], rule["resources"]) == (["workspace.jupyter.org"], ["workspaces"])
        (validation,) = policy["spec"]["validations"]
        if cel.evaluate(validation["expression"], known) is not True:
            names.add(policy["metadata"]["name"])
    return names


def test_the_space_of_the_page_is_admitted() -> None:
    assert refused(with_spaces(), space()) == set()


def test_the_space_of_the_page_has_the_fields_of_the_definition() -> None:
    """As the definition of Workspace has them, of which AWS's page spells the time-out in another way.

    https://github.com/jupyter-infra/jupyter-k8s/blob/v0.2.0/config/crd/bases/workspace.jupyter.org_workspaces.yaml
    (read 2026-11-24)
    """
    spec = space()["spec"]
    known = {"displayName", "image", "ownershipType", "accessType", "resources", "templateRef", "volumes"}
    assert set(spec) == known | {"idleShutdown"}
    assert set(spec["idleShutdown"]) == {"enabled", "idleTimeoutInMinutes", "detection"}
    assert [set(each) for each in spec["volumes"]] == [{"name", "mountPath", "persistentVolumeClaimName"}]


@pytest.mark.parametrize("idle", [None, {"enabled": False}])
def test_a_space_that_never_shuts_down_is_refused_unless_it_is_stopped(idle: dict[str, Any] | None) -> None:
    assert refused(with_spaces(), space(idleShutdown=idle)) == {"trainway-space-idle"}
    assert refused(with_spaces(), space(idleShutdown=idle, desiredStatus="Stopped")) == set()
    leaving = space(idleShutdown=idle)
    leaving["metadata"]["deletionTimestamp"] = "2026-11-24T00:00:00Z"
    assert refused(with_spaces(), leaving) == set()


@pytest.mark.parametrize("labels", [None, {}, {QUEUE: "hyperpod-ns-product-localqueue"}])
def test_a_space_outside_of_its_teams_queue_is_refused(labels: dict[str, str] | None) -> None:
    outside = space()
    outside["metadata"].pop("labels")
    if labels is not None:
        outside["metadata"]["labels"] = labels
    assert refused(with_spaces(), outside) == {"trainway-space-queue"}
    elsewhere = {**outside, "metadata": {**outside["metadata"], "namespace": "hyperpod-research"}}
    assert refused(with_spaces(task_governance=False), elsewhere) == set(), "there is no queue without governance"


def test_a_platform_without_spaces_has_no_policy_for_them() -> None:
    names = [each["metadata"]["name"] for each in objects(with_spaces(spaces=False), "ValidatingAdmissionPolicy")]
    assert not [name for name in names if "space" in name]
