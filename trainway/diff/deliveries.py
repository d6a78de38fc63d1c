"""Describe the pipelines of a deploy: the stages that run, the images that they build, and the minutes.

A stage runs if its stack has a new wait condition (stacks/constructs/delivery/pipeline.py). A stage of an image's
pipeline builds only what the registry does not have yet: its tag is a hash of what is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.tokens import StackTemplate
from trainway.spec.deployment import creation
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.versions import versions_facts
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.image_build import bases_of_earlier_images
from trainway.spec.platform import Platform

WAITS: Final = ("AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle")
_DONE: Final = re.compile(r"([A-Z][a-z]+)Done[0-9a-f]+")
_PROJECT: Final = "AWS::CodeBuild::Project"
# What a stage does, and the step of a first deploy that takes as long.
_STAGES: Final = {
    "Mirror": ("copies images and charts into the registry", creation.MIRROR),
    "Cluster": ("installs charts and applies Kubernetes objects", creation.CHARTS),
    "Autoscaling": ("applies the objects of autoscaling", creation.AUTOSCALING),
    "Scripts": ("uploads the lifecycle scripts, for nodes that are created afterwards", creation.SCRIPTS),
    "Squash": ("sets root squash of the file system", creation.ROOT_SQUASH),
}
# The variables of an image's stages that have the tags of what each builds, and the words for it. A project is the
# stage of the first variable that it has.
_TAGS: Final = {
    "IMAGE_TAG": "image",
    "DOCKERFILE_TAG": "packages and Dockerfile",
    "BASE_TAG": "base",
}
# In the order in which they are built.
_BUILDS: Final = ("base", _TAGS["DOCKERFILE_TAG"], "image")
_ALL_THERE: Final = "builds nothing: the registry has the image, and its signature, copies, and logins are checked"


@dataclass(frozen=True)
class StackDelivery:
    """What the stages of a stack's pipeline do, and how many minutes they take at least, by the step of a deploy."""

    words: tuple[str, ...] = ()
    minutes: Mapping[str, int] = field(default_factory=dict)


def delivery_of(
    role: str,
    diffs: Sequence[ResourceDiff],
    deployed: Sequence[StackTemplate],
    platform: Platform,
    catalogue: Catalogue,
) -> StackDelivery:
    """Describe the stages that the pipeline of a stack runs in a deploy, with their minutes.

    `role` is the stack's name without that of the platform, and `diffs` are those of the stack. `deployed` are the
    templates of all deployed stacks, whose images the registry has.
    """
    new = [each for each in diffs if each.kind == WAITS[0] and each.action is Action.CREATED]
    stages = {found[1] for each in new if (found := _DONE.search(each.id.logical_id))}
    if "Image" in stages:
        image = role.removeprefix("image-") if role.startswith("image-") else DEFAULT_IMAGE
        return _of_image(image, diffs, deployed, platform, catalogue)
    known = creation.durations()
    found_words = [_STAGES[stage] for stage in _STAGES if stage in stages]
    return StackDelivery(
        tuple(words for words, _ in found_words), {step: known[step].minutes for _, step in found_words}
    )


def _of_image(
    image: str,
    diffs: Sequence[ResourceDiff],
    deployed: Sequence[StackTemplate],
    platform: Platform,
    catalogue: Catalogue,
) -> StackDelivery:
    there = {
        tag
        for template in deployed
        for resource in template.get("Resources", {}).values()
        if resource["Type"] == _PROJECT
        for tag in _tags(resource)
    }
    wanted = [tag for each in diffs if each.kind == _PROJECT for tag in _tags(each.after)]
    missing = {what for what, tag in wanted if (what, tag) not in there}
    if image in bases_of_earlier_images(platform, catalogue, versions_facts()):
        # The stage waits for the earlier image, which is built on the same base.
        missing -= {"base"}
    view, known = platform.of_image(image), creation.durations()
    whole = creation.minutes_of_base(view) if "base" in missing else known[creation.IMAGE_ON_BASE].minutes
    added = known[creation.IMAGE_ADDITIONS].minutes if _TAGS["DOCKERFILE_TAG"] in missing else 0
    steps = {creation.IMAGE: whole, creation.IMAGE_ADDITIONS: added}
    built = [what for what in _BUILDS if what in missing]
    return StackDelivery(
        (f"builds the {_listed(built)}" if built else _ALL_THERE,),
        steps if image == DEFAULT_IMAGE else {creation.step_of_image(image): sum(steps.values())},
    )


def _tags(project: Any) -> Iterator[tuple[str, str]]:
    """Yield what a project of an image's pipeline builds, and its tag."""
    environment = project.get("Properties", {}).get("Environment", {}).get("EnvironmentVariables", ())
    values = {each["Name"]: each["Value"] for each in environment}
    variable = next((name for name in _TAGS if name in values), None)
    if variable == "DOCKERFILE_TAG":
        yield _TAGS[variable], f"{values.get('PACKAGES_TAG')} {values[variable]}"
    elif variable:
        yield _TAGS[variable], str(values[variable])


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and the {words[-1]}"
