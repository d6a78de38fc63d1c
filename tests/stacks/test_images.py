"""Several images a platform: each has a pipeline and a repository of its own, and jobs find it by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hand_offs import hand_off_in
from tests.synthesis import Template, assembly_in, resources, templates_of
from trainway.spec.handoff_names import image_parameter_name

NEURON = f"public.ecr.aws/neuron/pytorch-training-neuronx:2.9.0@sha256:{'0' * 64}"
PLATFORM: dict[str, Any] = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az1", "usw2-az2"],
    "node_groups": [
        {"name": "gpu", "instance_type": "p5.48xlarge", "count": 2},
        {"name": "trn", "instance_type": "trn1.32xlarge", "count": 2, "image": "neuron"},
    ],
    "images": {
        "neuron": {"base": NEURON},
        "develop": {"base": "devel"},
        "extra": {"packages": {"apt": ["libaio-dev"]}},
        "jobs": {"uri": f"111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{'1' * 64}"},
    },
    "kubernetes": {"admins": ["arn:aws:iam::111122223333:role/Admin"]},
    "iam": {"persona_roles": True},
}
BUILT = ("image", "image-neuron", "image-develop", "image-extra")


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembly_in(platform_file(tmp_path_factory.mktemp("images"), PLATFORM))


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    return dict(templates_of(platform_file(tmp_path_factory.mktemp("images"), PLATFORM)))


def platform_file(directory: Path, document: dict[str, Any]) -> Path:
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def arguments(assembly: Path, image: str) -> dict[str, str]:
    bundle = assembly / "bundles" / image / "image.json"
    return dict(json.loads(bundle.read_text(encoding="utf-8")))


def only(stack: Template, kind: str) -> dict[str, Any]:
    [found] = resources(stack, kind).values()
    return dict(found)


def test_an_image_is_for_the_accelerators_of_the_groups_that_name_it(assembly: Path) -> None:
    chosen = {name: arguments(assembly, name) for name in BUILT}
    assert {name: each["VARIANT"] for name, each in chosen.items()} == {
        "image": "cuda",
        "image-neuron": "neuron",
        "image-develop": "cuda",
        "image-extra": "cuda",
    }
    assert [chosen[each]["CUDA_TOOLKIT"] for each in ("image-develop", "image")] == ["with", "without"]
    assert chosen["image-neuron"]["BASE_IMAGE"] == NEURON


def test_images_share_no_pipeline_no_signal_no_record_of_attempts_and_no_repository(
    stacks: dict[str, Template],
) -> None:
    pipelines = [only(stacks[name], "AWS::CodePipeline::Pipeline") for name in BUILT]
    assert [each["Name"] for each in pipelines] == [f"atlas-{name}" for name in BUILT]
    attempts = {json.dumps(each["Stages"][-1]) for each in pipelines}
    assert len({text.partition("/attempts")[2].partition('\\"')[0] for text in attempts}) == len(BUILT)
    names = [
        parameter["Name"] for name in BUILT for parameter in resources(stacks[name], "AWS::SSM::Parameter").values()
    ]
    assert len(names) == len(set(names))
    repositories = [only(stacks[name], "AWS::ECR::Repository")["RepositoryName"] for name in BUILT[1:]]
    assert repositories == ["atlas/training-neuron", "atlas/training-develop", "atlas/training-extra"]
    assert not resources(stacks["image-jobs"], "AWS::CodePipeline::Pipeline")


def test_a_base_that_two_images_have_is_built_once(assembly: Path) -> None:
    artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    waits = {name: "atlas-image" in artifacts[f"atlas-{name}"]["dependencies"] for name in BUILT[1:]}
    assert waits == {"image-neuron": False, "image-develop": False, "image-extra": True}
    # Nothing else waits for an image, and no export of one keeps its stack from being deleted.
    others = [name for name in artifacts if not name.startswith("atlas-image")]
    assert not any("atlas-image" in each for name in others for each in artifacts[name].get("dependencies", []))


def test_a_change_of_one_image_starts_no_pipeline_of_another(stacks: dict[str, Template], tmp_path: Path) -> None:
    images = PLATFORM["images"] | {"extra": {"packages": {"apt": ["numactl"]}}}
    changed = templates_of(platform_file(tmp_path, PLATFORM | {"images": images}))
    assert {name for name in stacks if stacks[name] != changed[name]} == {"image-extra", "cluster", "observability"}


def test_launchers_find_every_image_by_its_name(assembly: Path, stacks: dict[str, Template]) -> None:
    hand_off = hand_off_in(assembly)
    assert list(hand_off.image_uris) == ["image", "develop", "extra", "jobs", "neuron"]
    assert "/atlas/training-neuron:" in hand_off.images["neuron"]
    assert hand_off.images["jobs"] == PLATFORM["images"]["jobs"]["uri"]
    assert {group.name: group.image for group in hand_off.node_groups} == {"gpu": None, "trn": "neuron"}
    assert {group.name: group.runtime for group in hand_off.node_groups} == {
        "gpu": "trainway-torch",
        "trn": "trainway-torch-trn",
    }
    for name in ("image", *PLATFORM["images"]):
        stack = stacks["image" if name == "image" else f"image-{name}"]
        written = [each["Name"] for each in resources(stack, "AWS::SSM::Parameter").values()]
        assert image_parameter_name("atlas", name) in written
        # Whoever launches may read where the image is, and which one was chosen instead.
        assert f"parameter/trainway/atlas/image{'' if name == 'image' else f'/{name}'}" in json.dumps(stacks["cluster"])


def test_the_scan_of_every_image_has_an_alarm(stacks: dict[str, Template]) -> None:
    rules = json.dumps(resources(stacks["observability"], "AWS::Events::Rule"))
    for repository in ("training", "training-neuron", "training-develop", "training-extra"):
        assert f'"repository-name": ["atlas/{repository}"' in rules


def test_what_the_topic_does_not_take_of_a_scan_goes_to_the_queue_with_an_alarm(stacks: dict[str, Template]) -> None:
    made = stacks["observability"]["Resources"]
    (queue,) = [name for name, each in made.items() if each["Type"] == "AWS::SQS::Queue"]
    (policy,) = [name for name, each in made.items() if each["Type"] == "AWS::SQS::QueuePolicy"]
    rules = [made[name] for name in made if name.startswith("ImageScan") and made[name]["Type"] == "AWS::Events::Rule"]
    assert len(rules) == 2 * (1 + len(PLATFORM["images"]))
    for rule in rules:
        (target,) = rule["Properties"]["Targets"]
        assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [queue, "Arn"]}}
        assert policy in rule["DependsOn"], "EventBridge drops what it may not send"


def test_the_bases_of_as_many_caches_are_kept_as_there_are_images(stacks: dict[str, Template]) -> None:
    policies = [
        json.loads(each["LifecyclePolicy"]["LifecyclePolicyText"])
        for each in resources(stacks["registry"], "AWS::ECR::Repository").values()
        if each["RepositoryName"] == "atlas/mirror/training-base"
    ]
    [caches] = [rule for rule in policies[0]["rules"] if rule["selection"]["tagPrefixList"] == ["cache-"]]
    assert caches["selection"]["countNumber"] == 1 + len(("image", *PLATFORM["images"]))


def test_a_closed_network_has_a_command_for_each_image_that_is_built(tmp_path: Path) -> None:
    images = {name: PLATFORM["images"][name] for name in ("develop", "extra", "jobs")}
    document = PLATFORM | {"network": "closed", "images": images, "node_groups": PLATFORM["node_groups"][:1]}
    registry = templates_of(platform_file(tmp_path, document))["registry"]
    commands = {name: each["Value"] for name, each in registry["Outputs"].items() if name.startswith("Supply")}
    parameters = {
        each["Name"]: json.dumps(each["Value"]) for each in resources(registry, "AWS::SSM::Parameter").values()
    }
    named = {"Supply": "", "SupplyDevelop": "/develop", "SupplyExtra": "/extra"}
    assert commands == {
        output: f"AWS_REGION=us-west-2 SUPPLY_PARAMETER=/trainway/atlas/delivery/supply{end} bash delivery/supply.sh"
        for output, end in named.items()
    }
    texts = {end: parameters[f"/trainway/atlas/delivery/supply{end}"] for end in named.values()}
    # The charts come with the default image, and the packages with the image that has them.
    assert {end: '\\"CHARTS\\":\\"\\"' in text.replace("\\\\", "\\") for end, text in texts.items()} == {
        "": False,
        "/develop": True,
        "/extra": True,
    }
    assert {end for end, text in texts.items() if "PACKAGES_TAG" in text} == {"/extra"}
