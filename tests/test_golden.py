"""Golden templates are JSON that a reviewer can read: short, with a stable order, and without hashes of content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.representatives import PLATFORMS
from tests.synthesis import EXAMPLES, GOLDEN_WIDTH, ROOT, digest, golden_text, templates_of

HASH, ASSET = "0123456789abcdef", "0123456789abcdef" * 4
LAID_OUT = """\
{"Resources": {
 "Policy": {"Statement": [{
  "Action": ["s3:GetObject", "s3:PutObject"],
  "Resource": {"Fn::Join": ["", [
   "arn:aws:s3:::",
   {"Fn::ImportValue": "first-storage:ExportsOutputRefDataBucketE6B0FAA83794BF10"},
   "/first-cluster/attempts/*"
  ]]}
 }]},
 "Rule": {"Properties": {"Name": "short"}, "Type": "AWS::Events::Rule"}
}}
"""


def test_a_value_that_fits_is_on_one_line_and_keys_are_sorted() -> None:
    template = json.loads(LAID_OUT)
    assert golden_text(template) == LAID_OUT
    template["Resources"]["Policy"] = template["Resources"].pop("Policy")
    assert golden_text(template) == LAID_OUT


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ({f"DeliveryClusterDone{HASH}01234567": {}}, {"DeliveryClusterDone<content>": {}}),
        ({"Key": f"{ASSET}.zip"}, {"Key": "<asset>.zip"}),
        (
            [f'{{"name": "STAGE_CONTENT", "value": "{HASH} s3://'],
            ['{"name": "STAGE_CONTENT", "value": "<content> s3://'],
        ),
        ({"HandOff": '{"trainway":{"version":"1.2.3"}}'}, {"HandOff": '{"trainway":{"version":"<version>"}}'}),
        (f"s3://bucket/lifecycle_scripts/{HASH}/", "s3://bucket/lifecycle_scripts/<content>/"),
        ({"Value": HASH}, {"Value": "<content>"}),
        ('{"BASE_TAG":"' + HASH + '"}', '{"BASE_TAG":"<content>"}'),
        (f"/training-develop:{HASH}", "/training-develop:<content>"),
        ({"prefix": f"{HASH}/"}, {"prefix": "<content>/"}),
        (f"/delivery/bills/packages-{HASH}", "/delivery/bills/packages-<content>"),
    ],
)
def test_what_changes_with_the_content_is_masked_wherever_it_is(made: Any, kept: Any) -> None:
    """Short and long templates have different lines."""
    for beside in ({}, {"Long": ["x" * GOLDEN_WIDTH, "y"]}):
        assert json.loads(golden_text({"Resources": {"Of": made, **beside}})) == {"Resources": {"Of": kept, **beside}}
        assert digest({"Of": made, **beside}) == digest({"Of": kept, **beside})


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_mask_hides_no_resource(name: str) -> None:
    """Two logical IDs that differ only in a hash are one behind the mask."""
    (file,) = (file for file in EXAMPLES if file.stem == name)
    for role, template in templates_of(file).items():
        kept = json.loads(golden_text(template))
        assert {key: len(each) for key, each in kept.items()} == {key: len(each) for key, each in template.items()}, (
            role
        )


def test_the_templates_are_few_enough_lines_to_review() -> None:
    files = (ROOT / "examples").glob("*.golden/*.json")
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 15_000
