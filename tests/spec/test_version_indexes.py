"""What the readers of the publishers' indexes take and refuse, and what `current` moves to."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from trainway.spec.errors import UsageError
from trainway.spec.loader import load_versions
from trainway.spec.refresh_versions import combining, indexes


def ask_of(**bodies: Any) -> indexes.Fetch:
    """Return an answer for each part of an address."""

    def ask(address: str) -> bytes:
        body = next(body for part, body in bodies.items() if part in address)
        return body if isinstance(body, bytes) else json.dumps(body).encode()

    return ask


@pytest.mark.parametrize(
    ("reader", "answer", "lacks"),
    [
        (lambda ask: indexes.newest_pytorch(ask, "3.12"), {"info": {}}, "one wheel of torch"),
        (lambda ask: indexes.newest_pytorch(ask, "3.12"), b"<html>", "JSON"),
        (indexes.newest_efa_installer, b"| 1.60.0 | nothing | today |", "a row with a version"),
        (indexes.newest_nccl_tests, [{"name": "latest"}], "a tag such as"),
        (indexes.newest_nccl_tests, {"message": "API rate limit exceeded"}, "the tags of nccl-tests"),
    ],
)
def test_an_index_of_another_form_is_named_with_what_it_lacks(reader: Any, answer: Any, lacks: str) -> None:
    with pytest.raises(UsageError) as caught:
        reader(ask_of(http=answer))
    assert lacks in str(caught.value) and "https://" in str(caught.value)


def test_notes_without_a_promise_promise_nothing() -> None:
    assert indexes.plugin_notes(ask_of(http={"body": "Bug fixes."}), "1.30.0") == indexes.Notes((), None, (), None)


def test_a_pytorch_that_current_lacks_for_two_weeks_is_late() -> None:
    versions = load_versions()
    released = {"9.9.0": date(2026, 12, 1)}
    assert combining.late(versions, released, date(2026, 12, 15)) is None
    assert "9.9.0 was released 15 days ago" in str(combining.late(versions, released, date(2026, 12, 16)))
    assert combining.late(versions, {versions.pytorch[0].version: date(2020, 1, 1)}, date(2026, 12, 1)) is None


def test_a_pair_that_nobody_tested_needs_evidence() -> None:
    versions = load_versions()
    wheel = versions.pytorch[0].model_copy(update={"version": "9.9.0", "nccl": "9.9.9"})
    newer = versions.model_copy(update={"pytorch": (*versions.pytorch, wheel)})
    assert combining.next_current(newer, None, date(2026, 12, 1)) is None
    row = combining.next_current(newer, "somebody runs it", date(2026, 12, 1))
    assert row and (row["name"], row["evidence"]) == ("pytorch-9.9", "somebody runs it")
    assert combining.next_current(versions, "somebody runs it", date(2026, 12, 1)) is None
