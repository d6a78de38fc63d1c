"""The image stack tells launchers the digest that its build reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stacks.constructs.delivery import bundle
from tests.synthesis import ROOT, assembly_in, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import BuiltImage
from trainway.spec.handoff_names import image_parameter_name
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

# What CloudFormation gives as the condition's Data: what each signal passed, by its UniqueId.
DATA = '{"image":"sha256:0123"}'


def parts(value: Any, condition: str) -> str:
    """The text of a parameter's value; what another stack exports is a name here."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, each]}:
            return str(separator).join(parts(one, condition) for one in each)
        case {"Fn::Select": [index, among]}:
            return str(parts_of(among, condition)[int(index)])
        case {"Fn::GetAtt": [name, "Data"]} if name == condition:
            return DATA
        case {"Ref": name}:
            return str(name)
        case {"Fn::ImportValue": _}:
            return "arn:aws:ecr:us-west-2:111122223333:repository/atlas/training"
    raise AssertionError(value)


def parts_of(value: Any, condition: str) -> list[str]:
    separator, text = value["Fn::Split"]
    return parts(text, condition).split(separator)


def test_the_digest_of_the_build_is_where_launchers_look_for_it() -> None:
    stacks = templates_of(ROOT / "examples/eks-p5.yaml")
    conditions = resources(stacks["image"], "AWS::CloudFormation::WaitCondition")
    [condition] = [name for name in conditions if name.startswith("DeliveryImageDone")]
    parameters = resources(stacks["image"], "AWS::SSM::Parameter").values()
    [parameter] = [each for each in parameters if each["Name"] == image_parameter_name("atlas")]
    built = BuiltImage.model_validate(json.loads(parts(parameter["Value"], condition)))
    assert built.pinned.endswith("@sha256:0123")
    assert built.uri.rpartition(":")[0] == built.pinned.rpartition("@")[0]


# A synthesis takes a second of CPU time, so tests share these platforms.
CHOSEN = ("{sign: true, versions: pytorch-2.13}", "{sign: false, versions: pytorch-2.11}")


@pytest.mark.parametrize(("image", "sign"), list(zip(CHOSEN, (True, False), strict=True)))
def test_the_build_may_sign_by_its_profile_alone_or_only_end_the_signatures(
    image: str, sign: bool, tmp_path: Path
) -> None:
    text = (ROOT / "examples/eks-p5.yaml").read_text(encoding="utf-8")
    file = tmp_path / "platform.yaml"
    file.write_text(f"{text}\nimage: {image}\n", encoding="utf-8")
    stack = templates_of(file)["image"]
    policies = json.dumps(resources(stack, "AWS::IAM::Policy"))
    assert "ecr:PutSigningConfiguration" in policies
    assert ("signer:SignPayload" in policies) == sign
    [build] = [each for name, each in resources(stack, "AWS::CodeBuild::Project").items() if name.startswith("Build")]
    told = {each["Name"]: each["Value"] for each in build["Environment"]["EnvironmentVariables"]}
    profiles = list(resources(stack, "AWS::Signer::SigningProfile"))
    assert told["SIGNING_PROFILE"] == ({"Fn::GetAtt": [profiles[0], "Arn"]} if sign else "none")
    assert ("signer" in json.dumps(resources(stack, "AWS::SSM::Parameter"))) == sign


def test_the_build_is_given_the_arguments_of_the_platforms_versions(tmp_path: Path) -> None:
    text = (ROOT / "examples/eks-p5.yaml").read_text(encoding="utf-8")
    tags = {}
    for image, versions in zip(CHOSEN, ("pytorch-2.13", "pytorch-2.11"), strict=True):
        file = tmp_path / f"{versions}.yaml"
        file.write_text(f"{text}\nimage: {image}\n", encoding="utf-8")
        arguments = json.loads((assembly_in(file) / "bundles/image/image.json").read_text(encoding="utf-8"))
        assert arguments["PYTORCH_VERSION"].startswith(versions.removeprefix("pytorch-"))
        tags[versions] = arguments["NCCL_VERSION"]
    assert tags == {"pytorch-2.13": "2.29.7", "pytorch-2.11": "2.28.9"}


def test_a_release_without_a_list_of_its_packages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "container/requirements").mkdir(parents=True)
    monkeypatch.setattr(bundle, "CHECKOUT", tmp_path)
    platform = load_platform(ROOT / "examples/eks-p5.yaml")
    with pytest.raises(SpecError, match=r"pytorch\[0\].version = .*\n.*container/requirements has no list for it"):
        bundle.platform_bundles(tmp_path / "bundles", platform, load_catalogue())
