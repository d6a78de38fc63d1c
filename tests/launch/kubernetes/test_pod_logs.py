"""The lines of pods come as they are written, also those of a pod that began while others write."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from trainway.launch.kubernetes import pod_logs
from trainway.launch.target.wanted_lines import EVERY_LINE

# `kubectl logs` of a pod that never stops, and of one that ends.
KUBECTL = """#!/bin/sh
case "$*" in
  *noisy*) while sleep 0.01; do echo still here; done ;;
  *) echo the late pod ;;
esac
"""


def pod(name: str) -> dict[str, Any]:
    state = {"containerStatuses": [{"state": {"running": {}}, "restartCount": 0}], "phase": "Running"}
    return {"metadata": {"name": name, "uid": name}, "spec": {"containers": [{"name": "node"}]}, "status": state}


def test_a_pod_that_begins_while_another_writes_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(pod_logs, "SECONDS_BETWEEN_LOOKS", 0.1)
    listed = itertools.chain([[pod("noisy")]], itertools.repeat([pod("noisy"), pod("late")]))
    handle = {"name": "small", "namespace": "jobs", "context": "here"}
    lines = pod_logs.lines_as_they_come(handle, lambda: next(listed), lambda: False, EVERY_LINE)
    # The limit only ends a hang.
    assert any("the late pod" in line for line in itertools.islice(lines, 1_000))
    lines.close()  # type: ignore[attr-defined]
