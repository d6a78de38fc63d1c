"""A deploy fetches two images of operators from Docker Hub, whose limit of pulls counts by address, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.synthesis import ROOT, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import build_arguments
from trainway.spec.image.image_reference import registry_of
from trainway.spec.kubernetes.charts import IN_DOCKER_HUB
from trainway.spec.loader import load_platform, load_versions

EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
NAMED = re.compile(r"(?:docker\.io|registry-1\.docker\.io|hub\.docker\.com)/[\w./-]+")
# What deploys, builds, and nodes run, and the templates that CloudFormation gets.
DEPLOYED = ("container", "delivery", "lifecycle_scripts", "stacks", "trainway/manifests", "trainway/spec/facts")


def named_in(folder: Path) -> set[str]:
    """Return the images of Docker Hub that files of a folder name, and the charts of mirror.yaml that bring them."""
    files = [each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    return {match for file in files for match in NAMED.findall(file.read_text(encoding="utf-8", errors="replace"))}


def test_no_script_value_or_template_names_another_image_of_docker_hub() -> None:
    mirror = yaml.safe_load((ROOT / "delivery/mirror.yaml").read_text(encoding="utf-8"))
    theirs = {each["repository"] for each in mirror["images"] if registry_of(each["repository"]) == "docker.io"}
    chosen = [chart for chart in mirror["charts"] if chart["chart"] in IN_DOCKER_HUB]
    images = {value["image"] for chart in chosen for value in chart["image_values"]}
    assert theirs == {each["repository"] for each in mirror["images"] if each["name"] in images}
    found = set().union(*(named_in(ROOT / folder) for folder in DEPLOYED))
    assert {name for name in found if not any(each.startswith(name) for each in theirs)} == set()
    templates = set().union(*(named_in(folder) for folder in ROOT.glob("examples/*.golden")))
    assert templates == set()


def test_an_image_of_docker_hub_is_found(tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text("docker pull docker.io/library/alpine:3\n")
    assert named_in(tmp_path) == {"docker.io/library/alpine"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_no_image_begins_with_one_of_docker_hub(file: Path) -> None:
    platform = load_platform(file)
    for name in platform.image_names:
        view = platform.of_image(name)
        if view.image.uri is None:
            base = build_arguments(view, load_catalogue(), load_versions())["BASE_IMAGE"]
            assert registry_of(base) != "docker.io", base


def test_the_mirror_alone_may_read_the_login_to_docker_hub(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    text = (ROOT / "examples/eks-p5.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    document.setdefault("kubernetes", {}).update(mpi_operator=True, docker_hub_login={"secret": SECRET})
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    stacks = templates_of(file)
    readers = {name for name, stack in stacks.items() if SECRET in json.dumps(resources(stack, "AWS::IAM::Policy"))}
    told = {name for name, stack in stacks.items() if SECRET in json.dumps(resources(stack, "AWS::CodeBuild::Project"))}
    assert readers == told == {"mirror"}
