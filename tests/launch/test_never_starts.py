"""`trainway explain` names what bounds the nodes of a queued run that can never start."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import write_job
from tests.launch.kubernetes.platforms import hand_off_of
from tests.manifests.platforms import platform_of
from trainway.explain import explain
from trainway.launch.runs.run_directory import record_submission
from trainway.launch.starting import never_starts as module
from trainway.launch.starting.never_starts import never_starts
from trainway.launch.target.known import target_named
from trainway.launch.target.protocol import Phase, State
from trainway.spec.errors import usage_error

SMALL = {"name": "small", "guarantee": {"p5.48xlarge": 2}, "borrow": False}
PLATFORM = platform_of(
    node_groups=[{"name": "train", "instance_type": "p5.48xlarge", "count": 8}],
    teams=[SMALL, {"name": "large", "guarantee": {"p5.48xlarge": 6}}],
)


def queued(directory: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase = Phase.QUEUED, **job: Any) -> Path:
    """Record a run on Kubernetes that its target calls queued, on the deployed PLATFORM."""
    kubernetes = dataclasses.replace(target_named("kubernetes", cannot="launched"), state=lambda _: State(phase))
    monkeypatch.setattr(module, "target_named", lambda *_, **__: kubernetes)
    monkeypatch.setattr(module, "platform_of", lambda _: PLATFORM)
    monkeypatch.setattr(module, "read_hand_off", lambda _: hand_off_of(PLATFORM))
    write_job(directory, **({"nodes": 4, "team": "small", "batch": {"global": 64, "micro": 1}} | job))
    nodes = {"count": 4, "instance_type": "p5.48xlarge"}
    options: dict[str, Any] = {"platform_file": "platform.yaml", "group": None, "target": {}}
    record_submission(directory, "kubernetes", {"name": "small-1129"}, options, nodes)
    return directory


def test_the_bound_of_a_queued_run_is_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [finding] = explain(never_starts(queued(tmp_path, monkeypatch)))
    assert finding.name == "never-starts"
    assert "it asks for 4 nodes, and the team small can have 2 nodes of train" in finding.cause
    assert "teams[0].borrow" in finding.remedy


@pytest.mark.parametrize(
    ("phase", "job"), [(Phase.QUEUED, {"nodes": 2}), (Phase.QUEUED, {"team": "large"}), (Phase.RUNNING, {})]
)
def test_a_run_that_can_start_has_no_such_cause(
    phase: Phase, job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not never_starts(queued(tmp_path, monkeypatch, phase, **job)).events


def test_a_platform_that_cannot_be_asked_keeps_nothing_from_being_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queued(tmp_path, monkeypatch)

    def gone(_: object) -> None:
        raise usage_error("the platform cannot be asked", why="it is gone", fix="deploy it")

    monkeypatch.setattr(module, "read_hand_off", gone)
    assert not never_starts(run).events


def test_a_run_without_nodes_of_a_platform_is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = queued(tmp_path, monkeypatch)
    launch = json.loads((run / "launch.json").read_text(encoding="utf-8"))
    (run / "launch.json").write_text(json.dumps({**launch, "nodes": None}), encoding="utf-8")
    assert not never_starts(run).events
