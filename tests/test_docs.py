"""What the other pages say is so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.synthesis import ROOT, make_app, templates
from trainway.manifests import cluster_manifests
from trainway.manifests.taints import tolerations
from trainway.spec.catalogue import load_catalogue
from trainway.spec.existing import ExistingNetwork
from trainway.spec.loader import load_platform

DOCS = sorted((ROOT / "docs").glob("*.md"))
TEAMS = ROOT / "docs" / "teams.md"
CLOSED, EXISTING = (ROOT / "docs" / f"{name}-network.md" for name in ("closed", "existing"))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_one_word_closes_a_network(tmp_path: Path) -> None:
    (word,) = re.findall(r"```yaml\n(.*?)```", CLOSED.read_text(), re.DOTALL)
    example = (ROOT / "examples" / "closed-hyperpod-eks.yaml").read_text()
    assert f"\n{word}" in example
    opened = tmp_path / "platform.yaml"
    opened.write_text(example.replace(word, ""))
    assert not load_platform(opened).network.is_closed


def test_the_stacks_that_come_first_in_a_closed_network_need_nothing_that_is_brought_in(tmp_path: Path) -> None:
    """The page's `STACKS` can be deployed without the rest, and the last of them prints the command."""
    (named,) = re.findall(r'make deploy .*STACKS="([^"]+)"', CLOSED.read_text())
    assembly = make_app(ROOT / "examples" / "closed-hyperpod-eks.yaml", tmp_path).synth()
    first = named.split()
    made = {stack.stack_name: stack for stack in assembly.stacks}
    for name in first:
        assert {d.id for d in made[name].dependencies if d.id in made} <= set(first)
        kinds = {resource["Type"] for resource in made[name].template["Resources"].values()}
        assert not kinds & {"AWS::CodePipeline::Pipeline", "AWS::CloudFormation::WaitCondition"}
    assert f"\n       {made[first[-1]].template['Outputs']['Supply']['Value']}\n" in CLOSED.read_text()
    deploy = ["make", "--dry-run", "deploy", "PLATFORM=platform.yaml", f"STACKS={named}"]
    shown = subprocess.run(deploy, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert f" deploy {named} " in shown and "--context platform=platform.yaml" in shown


def test_the_adopted_network_is_one_that_a_platform_can_move_into(tmp_path: Path) -> None:
    (printed,) = re.findall(r"\$ trainway adopt [^\n]*\n(.*?)```", EXISTING.read_text(), re.DOTALL)
    network = yaml.safe_load(printed)["network"]
    found = ExistingNetwork.model_validate(network["existing"])
    assert found.model_dump(mode="json", exclude_none=True, exclude_defaults=True) == network["existing"]
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform | {"network": {"cidr": "10.20.128.0/17", **network}}))
    stack = templates(make_app(file, tmp_path / "out"))["network"]
    kinds = {resource["Type"] for resource in stack["Resources"].values()}
    assert kinds == {
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::Subnet",
        "AWS::EC2::SubnetRouteTableAssociation",
    }


def test_the_job_of_a_team_is_one_that_its_nodes_and_its_queue_take(tmp_path: Path) -> None:
    teams, job, roles = (
        yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", TEAMS.read_text(), re.DOTALL)
    )
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform | teams | roles))
    loaded, catalogue = load_platform(file), load_catalogue()
    made = [each for name, each in cluster_manifests(loaded, catalogue).items() if name.startswith("objects/")]
    named = {(each["kind"], each["metadata"]["name"]) for each in made}
    pod = job["spec"]["template"]["spec"]
    assert ("Namespace", job["metadata"]["namespace"]) in named
    assert ("LocalQueue", "default") in named
    assert ("WorkloadPriorityClass", job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]) in named
    assert pod["tolerations"] == tolerations(loaded, catalogue)
    node = catalogue[loaded.node_groups[0].instance_type]
    assert pod["containers"][0]["resources"]["limits"] == dict(node.devices)
    kubernetes_validate.validate(job, loaded.kubernetes_or_default.version, strict=True)
