"""Every captured failure is explained by its cause, and no log of a job that went well is explained at all.

A failure is a directory below failures/: the files as a target or a person gathers them, with what the other ranks and
the launcher wrote after it, and expected.yaml with the page that its messages are documented on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainway.explain import Confidence, as_document, as_text, evidence_in, explain
from trainway.explain.rules import load_rules

HERE = Path(__file__).parent
FAILURES = sorted(each.name for each in (HERE / "failures").iterdir())
HEALTHY = sorted(each.name for each in (HERE / "healthy").iterdir())


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / "failures" / name / "expected.yaml").read_text())
    return found


@pytest.mark.parametrize("name", FAILURES)
def test_a_captured_failure_is_explained_by_its_cause(name: str) -> None:
    wanted = expected(name)
    findings = explain(evidence_in(HERE / "failures" / name / "evidence"))
    assert findings, "nothing was found"
    first = findings[0]
    assert first.name == wanted["cause"], as_text(findings)
    assert first.quote.rank == wanted.get("rank", first.quote.rank), as_text(findings)
    assert first.quote.node == wanted.get("node", first.quote.node), as_text(findings)
    assert wanted.get("says", "") in first.cause, as_text(findings)
    assert wanted.get("also", first.name) in [each.name for each in findings], as_text(findings)
    # A sentence whose parts were filled in reads as one.
    for sentence in (first.cause, first.remedy):
        assert "{" not in sentence and "  " not in sentence and " ," not in sentence, sentence


@pytest.mark.parametrize("name", HEALTHY)
def test_a_job_that_went_well_has_nothing_to_explain(name: str) -> None:
    findings = explain(evidence_in(HERE / "healthy" / name))
    assert findings == (), as_text(findings)


def test_every_captured_failure_says_where_its_messages_are_documented() -> None:
    for name in FAILURES:
        source = expected(name)["source"]
        assert source.startswith("https://") or (HERE.parents[1] / source).is_file(), (name, source)


def test_the_captured_failures_are_at_least_forty_and_of_as_many_causes() -> None:
    assert len({expected(name)["cause"] for name in FAILURES}) >= 40


def test_an_explanation_for_machines_has_the_same_cause_and_evidence() -> None:
    findings = explain(evidence_in(HERE / "failures" / "gpu-memory" / "evidence"))
    document = json.loads(json.dumps(as_document(findings)))
    assert document[0]["name"] == "gpu-memory"
    assert document[0]["confidence"] == Confidence.CERTAIN
    assert document[0]["evidence"]["rank"] == 5
    assert document[0]["evidence"]["file"] == "node-0.out"
    line = (
        (HERE / "failures/gpu-memory/evidence/node-0.out").read_text().splitlines()[document[0]["evidence"]["line"] - 1]
    )
    assert "CUDA out of memory" in line


def test_an_explanation_for_people_shows_cause_evidence_remedy_and_source() -> None:
    text = as_text(explain(evidence_in(HERE / "failures" / "efa-no-device" / "evidence")))
    for part in (
        "cause:    libfabric found no EFA device on ip-172-31-3-90",
        "evidence: nccl-0.log:",
        "fix:      ",
        "https://",
    ):
        assert part in text


def test_every_rule_names_a_page_or_a_page_of_ours() -> None:
    root = HERE.parents[1]
    for rule in load_rules():
        assert not rule.source or rule.source.startswith("https://") or (root / rule.source).is_file(), rule.name
