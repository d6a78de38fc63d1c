"""A run in fp16 finds a scale for its loss by itself, and no overflow reaches its weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from training.config import Job


@pytest.mark.exhaustive
def test_steps_that_overflow_are_skipped_until_the_scale_fits(
    job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed as dist

    from training.precision import loss_scale
    from training.train import train

    monkeypatch.setattr(loss_scale, "INITIAL", 2.0**22)  # too much for 65,504, the largest number of fp16
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TRAINWAY_RUN": str(tmp_path)}
    for name, value in (place | {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}).items():
        monkeypatch.setenv(name, value)
    try:
        train(Job.model_validate(job | {"precision": "fp16"}))
    finally:
        dist.destroy_process_group()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    steps = [event for line in lines if (event := json.loads(line))["event"] == "step"]
    skipped = [not math.isfinite(step["grad_norm"]) for step in steps]
    assert skipped[0]
    assert not any(skipped[-4:])
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.2, "a weight that is not a number learns nothing"
