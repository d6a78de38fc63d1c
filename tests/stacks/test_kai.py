"""What the stacks do for the KAI scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.hand_offs import hand_off_in
from tests.people import ADMIN
from tests.synthesis import all_resources, assembly_in, templates_of
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.kai import NOT_FOR_KAI, QUEUE_LABEL

PLATFORM = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az2", "usw2-az1"],
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
    "teams": [{"name": "research", "members": [ADMIN]}],
}


@pytest.mark.parametrize(("queues", "in_a_pool"), [("kai", ["system"]), ("kueue", [])])
def test_kai_sees_all_nodes_but_those_of_the_clusters_own_pods(
    queues: str, in_a_pool: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | {"kubernetes": {"queues": queues}}), encoding="utf-8")
    groups = all_resources(templates_of(file), "AWS::EKS::Nodegroup").values()
    assert {group["Labels"][NODES_LABEL] for group in groups} == {"system", "train"}
    pooled = [group["Labels"][NODES_LABEL] for group in groups if NOT_FOR_KAI.items() <= group["Labels"].items()]
    assert pooled == in_a_pool


def test_the_cluster_stage_installs_kai_and_its_images_have_repositories(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | {"kubernetes": {"queues": "kai"}}), encoding="utf-8")
    stacks = templates_of(file)
    repositories = {each["RepositoryName"] for each in all_resources(stacks, "AWS::ECR::Repository").values()}
    assert {"atlas/mirror/kai-scheduler/scheduler", "atlas/mirror/charts/kai-scheduler"} <= repositories
    assert not any("kueue" in name for name in repositories)
    assert QUEUE_LABEL in hand_off_in(assembly_in(tmp_path / "platform.yaml")).cluster.job_labels
