"""A cause of a failure is that of `trainway explain`."""

from __future__ import annotations

import pytest

from tests.report.usage.runs import at, attempt, record, recorded
from trainway.explain import Evidence, Log, explain
from trainway.report.usage.causes import LOST, UNSAID, FailureCause, cause_of
from trainway.report.usage.spans import AttemptSpan, spans_of


def failed(how: str = "failed", reason: str | None = None) -> AttemptSpan:
    began = at("2024-02-20")
    run = recorded(record("run", began), attempt(1, began, began + 60, how, reason=reason, exit_status=1))
    (found,) = spans_of(run, now=began + 9000).attempts
    return found


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB", "gpu-memory"),
        ("the disk is full: No space left on device (python3 ended with exit status 1)", "no-space"),
        ("AcceleratorError: CUDA error: uncorrectable ECC error encountered", "gpu-ecc"),
    ],
)
def test_a_cause_is_that_of_explain(reason: str, rule: str) -> None:
    found = explain(Evidence((Log("out", reason),), succeeded=False))[0]
    assert cause_of(failed(reason=reason)) == FailureCause(found.name, found.cause)
    assert found.name == rule


def test_an_attempt_without_an_end_or_a_reason_says_so_and_others_have_no_cause() -> None:
    assert cause_of(failed("running")) == FailureCause(None, LOST)
    assert cause_of(failed()) == FailureCause(None, UNSAID)
    assert cause_of(failed("stopped")) is cause_of(failed("succeeded")) is None
    # Numbers differ between runs that fail in one way.
    told = failed(reason="worker 4711 broke (train.sh ended with exit status 3)")
    assert cause_of(told) == FailureCause(None, "worker # broke")
