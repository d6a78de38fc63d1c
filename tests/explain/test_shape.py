"""Readers skip the values of a document that have an unexpected type, and read the others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainway.explain import evidence_in, explain, kubernetes_evidence, sagemaker_evidence
from trainway.explain.hyperpod import hyperpod_evidence
from trainway.explain.shape import shaped, time

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "sft-0", "labels": {"a": "b"}},
    "spec": {"nodeName": "n1"},
    "status": {
        "phase": "Failed",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes", "lastTransitionTime": "x"}],
        "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
    },
}
ANSWER = {
    "ClusterName": "c",
    "ClusterStatus": "Failed",
    "ClusterNodeSummaries": [{"InstanceId": "i-1"}],
    "Events": [{}],
}
JOB = {"TrainingJobName": "j", "SecondaryStatusTransitions": [{"Status": "Interrupted", "StartTime": "2026-11-30"}]}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(document: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(each for key, value in inner for each in places(value, (*path, key)))]


@given(st.data(), st.sampled_from([POD, ANSWER, JOB]), ANYTHING)
def test_no_value_of_another_type_is_an_error(data: st.DataObject, document: dict[str, Any], other: Any) -> None:
    changed = json.loads(json.dumps(document))
    *way, last = data.draw(st.sampled_from(places(document)[1:]))
    inside = changed
    for key in way:
        inside = inside[key]
    inside[last] = other
    read = {id(POD): lambda: kubernetes_evidence([changed]), id(ANSWER): lambda: hyperpod_evidence([changed])}
    explain(read.get(id(document), lambda: sagemaker_evidence(changed))())


def test_what_has_the_right_type_is_kept() -> None:
    shape = {"name": str, "at": time, "labels": {"*": str}, "items": [{"n": int}]}
    given_ = {"name": 7, "at": 0, "labels": {"a": "b", "c": 1}, "items": [{"n": 1}, "two", {"n": "3"}], "more": 1}
    assert shaped(given_, shape) == {
        "at": datetime(1970, 1, 1, tzinfo=UTC),
        "labels": {"a": "b"},
        "items": [{"n": 1}, {}],
    }


@pytest.mark.parametrize("value", ["yesterday", 1e300, float("nan"), [], None, "2026-13-01"])
def test_what_is_no_time_is_left_out(value: Any) -> None:
    assert time(value) is None


def test_a_list_with_a_string_among_its_items_is_read(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "PodList", "items": ["x", POD | {"kind": None}]}))
    assert "host-memory" in [finding.name for finding in explain(evidence_in(tmp_path))]
