"""With `deletion_protection`, every stack refuses its deletion, and EKS that of the cluster. Without it, none does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.representatives import with_representatives
from tests.synthesis import EXAMPLES, all_resources, assembly_in, templates_of
from trainway.diff import destroy
from trainway.diff.tokens import Id
from trainway.plan import plan_document, plan_text
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform

FILES = {file.stem: file for file in EXAMPLES}


def test_a_destroy_of_a_protected_platform_ends_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the file protects it, or only what was deployed does."""
    template = templates_of(FILES["platform"])["control-plane"]
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::EKS::Cluster":
            resource["Properties"]["DeletionProtection"] = True
    monkeypatch.setattr(destroy, "AwsAccount", lambda _region: None)
    monkeypatch.setattr(destroy, "deployed_templates", lambda *_: {"first-control-plane": None})
    resources = {Id("first-control-plane", name): each for name, each in template["Resources"].items()}
    monkeypatch.setattr(destroy, "resolved_templates", lambda _: resources)
    with pytest.raises(UsageError, match=r"deployed with `deletion_protection: true`\n    fix: write `deletion_prot"):
        destroy.look_at_destroy(FILES["platform"])
    file = tmp_path / "platform.yaml"
    file.write_text(FILES["platform"].read_text(encoding="utf-8") + "deletion_protection: true\n", encoding="utf-8")
    with pytest.raises(UsageError, match="the platform file says `deletion_protection: true`"):
        destroy.look_at_destroy(file)


def protected(assembly: Path) -> set[bool]:
    """Return whether the stacks of a cloud assembly are protected: the CDK's command line tells CloudFormation."""
    artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"].values()
    stacks = [each for each in artifacts if each["type"] == "aws:cloudformation:stack"]
    assert len(stacks) >= 7
    return {each["properties"].get("terminationProtection", False) for each in stacks}


@pytest.mark.parametrize("name", with_representatives(FILES, ["platform"]))
def test_a_platform_is_deleted_at_once_unless_its_file_protects_it(name: str, tmp_path: Path) -> None:
    for wanted in (False, True):
        file = tmp_path / "platform.yaml"
        content = yaml.safe_load(FILES[name].read_text(encoding="utf-8"))
        file.write_text(yaml.safe_dump(content | ({"deletion_protection": True} if wanted else {})), encoding="utf-8")
        assert protected(assembly_in(file)) == {wanted}
        text = plan_text(plan_document(load_platform(file), load_catalogue()))
        assert ("It is refused while the file says `deletion_protection: true`." in text) is wanted
        for cluster in all_resources(templates_of(file), "AWS::EKS::Cluster").values():
            assert cluster["DeletionProtection"] is wanted
