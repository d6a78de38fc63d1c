"""`image.replicate`: deployed, changed, and removed, with the rights that each copy needs and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.delivery.image_stack import BUILT, REPOSITORY
from tests.delivery.test_failed_pipelines import ACTION, deployable
from tests.emulator.conftest import Stack
from tests.synthesis import ROOT, Template, templates_of

EAST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
OTHER = "444455556666.dkr.ecr.us-west-2.amazonaws.com"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def image_stack(tmp_path: Path, image: str) -> Template:
    file = tmp_path / "platform.yaml"
    file.write_text(
        f"{(ROOT / 'examples/eks-p5.yaml').read_text(encoding='utf-8')}\nimage: {image}\n", encoding="utf-8"
    )
    return deployable(templates_of(file)["image"])


def copies() -> Any:
    """Return the registries that the stage of the deployed stack is told, or None."""
    client = boto3.client("codebuild")
    found = client.batch_get_projects(names=client.list_projects()["projects"])["projects"]
    told = [{each["name"]: each["value"] for each in one["environment"]["environmentVariables"]} for one in found]
    return next(each.get("REPLICATE_TO") for each in told if "IMAGE_TAG" in each)


def rights(template: Template) -> dict[str, set[str]]:
    """Return the actions on repositories elsewhere, by Region and account."""
    found: dict[str, set[str]] = {}
    for name, policy in template.items():
        if policy["Type"] == "AWS::IAM::Policy" and name.startswith("BuildRole"):
            for each in policy["Properties"]["PolicyDocument"]["Statement"]:
                text = str(each["Resource"])
                for place in ("us-east-1", "444455556666"):
                    if f":repository/{REPOSITORY}" in text and place in text:
                        found.setdefault(place, set()).update(each["Action"])
    return found


def test_copies_are_added_changed_and_removed(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    ecr = boto3.client("ecr")
    ecr.create_repository(repositoryName=REPOSITORY)
    stack = Stack(emulator, boto3.client("cloudformation"))
    emulator.set_builds({ACTION: [BUILT] * 4})
    states = [
        ("{keep: 20}", None),
        ("{replicate: {regions: [us-east-1]}}", EAST),
        ("{replicate: {accounts: ['444455556666']}}", OTHER),
        ("{keep: 20}", None),
    ]
    for number, (image, registries) in enumerate(states):
        template = image_stack(tmp_path, image)
        assert stack.deploy(template) == ("UPDATE_COMPLETE" if number else "CREATE_COMPLETE")
        assert copies() == registries, image
        assert bool(rights(template)) == bool(registries)
        for place, actions in rights(template).items():
            assert {"ecr:PutImage", "ecr:BatchGetImage", "ecr:DescribeImages"} <= actions
            # A repository of another account is that account's to create.
            assert ("ecr:CreateRepository" in actions) == (place == "us-east-1")
    stack.delete()
    ecr.delete_repository(repositoryName=REPOSITORY, force=True)
