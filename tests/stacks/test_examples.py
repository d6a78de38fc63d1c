"""Every example gives the templates that were reviewed, and templates without findings of cdk-nag.

`tests/seams/test_templates.py` has cfn-lint and the CDK's own validation.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden import digests_of, read_digests
from tests.representatives import PLATFORMS
from tests.stacks.by_example import Synthesized
from tests.synthesis import EXAMPLES, ROOT, golden_file, golden_text, make_app


def test_templates_are_the_reviewed_ones(example: Path, synthesized: Synthesized) -> None:
    made, name = synthesized[example.stem], example.stem
    if name not in PLATFORMS:
        changed = f"the templates changed: review them with `python -m tests.template_diff {name}`, run `make golden`"
        assert digests_of(made) == read_digests()[name], changed
        return
    texts = {role: golden_text(template) for role, template in made.items()}
    kept = {file.stem: file.read_text(encoding="utf-8") for file in golden_file(example, "any").parent.glob("*.json")}
    assert texts == kept, "the templates changed: review them with `make golden` and `git diff`"


def test_every_example_has_golden_templates_or_checksums() -> None:
    kept = {folder.stem for folder in (ROOT / "examples").glob("*.golden")}
    assert kept == set(PLATFORMS)
    assert read_digests().keys() == {file.stem for file in EXAMPLES} - kept


def test_no_stack_is_too_large_to_review(example: Path, synthesized: Synthesized) -> None:
    for role, template in synthesized[example.stem].items():
        assert len(template["Resources"]) <= 200, role


def test_no_stack_holds_a_lambda_function(example: Path, synthesized: Synthesized) -> None:
    for template in synthesized[example.stem].values():
        kinds = {resource["Type"] for resource in template["Resources"].values()}
        assert not {kind for kind in kinds if "Lambda" in kind or kind.startswith("Custom::")}


def test_no_cdk_nag_errors(example: Path, tmp_path: Path) -> None:
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    app = make_app(example, tmp_path)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()  # raises with the findings that nobody acknowledged
    report = json.loads((tmp_path / "validation-report.json").read_text())
    accepted = [
        finding
        for plugin in report["pluginReports"]
        for finding in plugin.get("suppressedViolations") or []
        if plugin["pluginName"] == "AwsSolutions"
    ]
    assert accepted, "cdk-nag did not run"
    assert all(len(finding["reason"]) > 20 for finding in accepted)
