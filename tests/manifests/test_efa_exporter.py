"""The exporter of EFA runs on EFA nodes alone, and without rights."""

from __future__ import annotations

import pytest

from tests.manifests.platforms import objects, platform_of
from tests.seams.kubernetes.pod_security import baseline_violations
from trainway.manifests.efa_exporter import LABEL, NAME, NAMESPACE

COLLECTED = {"observability": True}


def test_each_image_of_efa_nodes_has_a_daemon_set_with_the_selector_of_the_scrape() -> None:
    groups = [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 1},
        {"name": "tune", "instance_type": "g6e.8xlarge", "count": 1, "image": "tuning"},
        {"name": "data", "instance_type": "m7i.2xlarge", "count": 1},
    ]
    image = {"uri": "111122223333.dkr.ecr.us-west-2.amazonaws.com/tuning:1"}
    platform = platform_of(kubernetes=COLLECTED, node_groups=groups, teams=[], images={"tuning": image})
    found = {each["metadata"]["name"]: each["spec"] for each in objects(platform, "DaemonSet")}
    assert set(found) == {NAME, f"{NAME}-tuning"}
    nodes = [
        term["matchExpressions"][0]["values"]
        for spec in found.values()
        for term in spec["template"]["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
    ]
    assert nodes == [["train"], ["tune"]]
    selectors = [spec["selector"]["matchLabels"] for spec in found.values()]
    assert selectors[0] != selectors[1], "two DaemonSets with one selector would fight over their pods"
    assert all(spec["template"]["metadata"]["labels"][LABEL] == NAME for spec in found.values())


def test_the_exporter_has_no_rights_but_to_read_the_sys_of_its_node() -> None:
    (daemon_set,) = objects(platform_of(kubernetes=COLLECTED), "DaemonSet")
    spec = daemon_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert spec["automountServiceAccountToken"] is False
    assert len(baseline_violations({"spec": spec})) == 1, "the mount of /sys, and nothing else"
    # A job still fits on a whole node.
    assert container["resources"]["requests"] == {"cpu": "0", "memory": "0"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kubernetes": COLLECTED, "node_groups": [{"name": "g", "instance_type": "m7i.2xlarge", "count": 1}]},
        {"orchestrator": "hyperpod-eks", "hyperpod": COLLECTED},
    ],
    ids=["without a collector", "without EFA", "with the exporters of HyperPod"],
)
def test_nothing_is_installed_that_nothing_scrapes(changes: dict[str, object]) -> None:
    platform = platform_of(**changes, teams=[])
    assert objects(platform, "DaemonSet") == []
    assert NAMESPACE not in [each["metadata"]["name"] for each in objects(platform, "Namespace")]
