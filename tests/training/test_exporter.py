"""A real Prometheus reads the metrics of a real job of two ranks, and no step waits for it."""

from __future__ import annotations

import math
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.ports import free_port
from tests.prometheus import prometheus
from training.observe.stragglers import Straggler

if TYPE_CHECKING:
    from training.observe.exporter import Exporter

DESCRIPTION = {"job": 'the "job"', "model": "8b", "precision": "bf16", "world_size": 16, "steps": 100}
STEP: dict[str, Any] = {
    "step": 7,
    "loss": math.nan,
    "grad_norm": math.inf,
    "skipped": True,
    "tokens_per_second": 812345.0,
    "mfu": 0.56,
    "step_seconds": 1.5,
    "memory_bytes": 2**30,
    "breakdown": {"data_wait": 0.25, "forward": 1.25},
}

STRAGGLER = Straggler(11, "node-1", 3, "NVIDIA H200", "backward", 1.17, 51, 1795960800.0)


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exporter]:
    from training.observe.exporter import Exporter

    monkeypatch.setenv("TRAINWAY_RUN", "/fsx/runs/llama-1121")
    monkeypatch.setenv("GROUP_RANK", "3")
    monkeypatch.setenv("TRAINWAY_ATTEMPT", "3")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    found = Exporter("127.0.0.1", 0, DESCRIPTION, 50, resumed_from=None)
    yield found
    found.close()


def samples(exporter: Exporter) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=120) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = [each for family in families for each in family.samples]
    assert all(each.labels["run"] == "llama-1121" and each.labels["node_rank"] == "3" for each in found)
    return {each.name + each.labels.get("phase", ""): each.value for each in found}


def test_a_scrape_has_the_newest_step_and_what_is_no_number(exporter: Exporter) -> None:
    from training.checkpoint import FailedSave, Saved

    before = samples(exporter)
    assert "trainway_run_loss" not in before and before["trainway_run_restarts"] == 3
    exporter.step(STEP)
    exporter.checkpoint(Saved(5, None, 0.1, 1.0, 50))
    assert samples(exporter)["trainway_run_checkpoint_step"] == 0, "in memory alone"
    exporter.checkpoint(Saved(6, "fsx:/checkpoints/6", 0.25, 2.0, 50))
    exporter.failed_save(FailedSave(7, "no space", 1, 3))
    found = samples(exporter)
    assert math.isnan(found["trainway_run_loss"]) and math.isinf(found["trainway_run_gradient_norm"])
    assert found["trainway_run_phase_secondsdata_wait"] == 0.25
    expected = {"step": 7, "skipped_steps_total": 1, "checkpoint_step": 6, "failed_saves_total": 1, "mfu": 0.56}
    assert {name: found[f"trainway_run_{name}"] for name in expected} == expected


def test_a_scrape_names_the_ranks_that_are_slow(exporter: Exporter) -> None:
    assert "straggler" not in exporter.text()
    exporter.stragglers([STRAGGLER])
    assert samples(exporter)["trainway_run_straggler_ratiobackward"] == 1.17
    assert 'rank="11",host="node-1",local_rank="3",phase="backward"} 1.17' in exporter.text()
    exporter.stragglers([])
    assert "straggler" not in exporter.text()


def test_a_longer_interval_applies_at_once_and_a_shorter_one_after_a_save(exporter: Exporter) -> None:
    """Otherwise the alarm CheckpointOld would fire while a checkpoint is written."""
    from training.checkpoint import Saved

    def every() -> float:
        return samples(exporter)["trainway_run_checkpoint_every_steps"]

    exporter.interval(80)
    assert every() == 80
    exporter.interval(20)
    assert every() == 80
    exporter.checkpoint(Saved(100, None, 0.1, 1.0, 20))
    assert every() == 80, "in memory alone"
    exporter.checkpoint(Saved(100, "fsx:/checkpoints/100", 0.1, 1.0, 20))
    assert every() == 20


def test_every_metric_is_described_and_an_absent_one_is_left_out(exporter: Exporter) -> None:
    from training.observe.exporter import FAMILIES

    exporter.step(STEP)
    exporter.stragglers([STRAGGLER])
    assert {line.split()[2] for line in exporter.text().splitlines() if line.startswith("# TYPE")} == set(FAMILIES)
    exporter.step(STEP | {"mfu": None})
    assert "trainway_run_mfu" not in exporter.text()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/", timeout=120)


def test_the_first_rank_of_a_node_alone_has_an_exporter_if_the_run_has_metrics(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from training.observe.exporter import run_exporter

    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert run_exporter(DESCRIPTION, 50, None) is None
    monkeypatch.setenv("TRAINWAY_METRICS", f"127.0.0.1:{exporter.port}")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert run_exporter(DESCRIPTION, 50, None) is None
    for taken in (f"127.0.0.1:{exporter.port}", "127.0.0.1:no-port", "127.0.0.1:70000"):
        monkeypatch.setenv("LOCAL_RANK", "0")
        monkeypatch.setenv("TRAINWAY_METRICS", taken)
        assert run_exporter(DESCRIPTION, 50, None) is None
        assert f"warning: the run has no metrics for Prometheus at {taken}" in capsys.readouterr().err


# Four CPU seconds. The tests above it read a scrape, and see which rank serves it.
@pytest.mark.exhaustive
def test_prometheus_reads_a_job_of_two_ranks(launch: Any, job: dict[str, Any], tmp_path: Path) -> None:
    port = free_port()
    with prometheus(tmp_path, port) as server:
        run = launch(job | {"steps": 5000}, 2, TRAINWAY_METRICS=f"127.0.0.1:{port}")
        wait_for("Prometheus reads a step", lambda: any(step > 2 for _, step in server.query("trainway_run_step")))
        phases = "sum(trainway_run_phase_seconds) / sum(trainway_run_step_seconds)"
        (_, ratio), (labels, loss) = *server.answer(phases), *server.answer("trainway_run_loss")
        ((described, one),) = server.answer("trainway_run_info")
        for pid in run.workers():
            os.kill(pid, signal.SIGTERM)
        run.finish()
    assert ratio == pytest.approx(1)
    assert (labels["run"], labels["node_rank"]) == ("run", "0"), "one of two ranks"
    assert loss in [event["loss"] for event in run.events("step")]
    assert (described["job_name"], described["world_size"], one) == (job["name"], "2", 1)
