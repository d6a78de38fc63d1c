"""The diff marks the changes that an extension makes."""

from __future__ import annotations

import json
from pathlib import Path

from trainway.diff.assembly import extended_resources
from trainway.diff.report import DiffedResource, DiffedStack, DiffReport, text_of
from trainway.spec.extension import EXTENDED_FILE


def test_what_an_extension_does_is_marked(tmp_path: Path) -> None:
    (tmp_path / EXTENDED_FILE).write_text(json.dumps({"file": "x.py", "stacks": {"first-own": {"Topic": "added"}}}))
    assert extended_resources(tmp_path) == {"first-own": {"Topic": "added"}}
    assert extended_resources(tmp_path / "absent") == {}
    topic = DiffedResource(
        name="Topic",
        kind="SNS::Topic",
        type="AWS::SNS::Topic",
        logical_id="Topic",
        action="created",
        by_extension="added",
    )
    stack = DiffedStack(name="first-own", is_new=True, resources=(topic,))
    told = text_of(DiffReport(platform="first", region="us-west-2", account="1", stacks=(stack,)))
    assert "SNS::Topic Topic\n" + " " * 20 + "added by your extension" in told
