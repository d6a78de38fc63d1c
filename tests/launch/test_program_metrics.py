"""Numbers of a program come from its lines, from JSON lines, or from TensorBoard's files, and of one attempt each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.foreign import write_foreign_job
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.run_file import METRIC_PRESETS
from trainway.launch.node.program_metrics import MetricFiles
from trainway.launch.program.program import METRICS, STARTER
from trainway.spec.problems import SpecError

# What the programs print, word for word, without colors.
LINES = {
    "trainer": (
        " 20%|##        | 20/100 [00:03<00:12,  6.5it/s]{'loss': '4.861', 'grad_norm': '1.2', 'epoch': '0.2'}",
        {"step": 20, "loss": 4.861},
    ),
    "megatron": (
        " [2026-11-20 10:00:00] iteration       12/     100 | consumed samples:   384 | learning rate: 1.5E-05 | "
        "global batch size:    32 | lm loss: 1.083215E+01 | loss scale: 1.0 |",
        {"step": 12, "loss": 10.83215},
    ),
    "titan": (
        "[titan] step:  5  loss:  8.1234  grad_norm:  1.02  memory: 12.3GiB  tps: 7,012",
        {"step": 5, "loss": 8.1234},
    ),
    "automodel": ("step 7 | epoch 0 | loss 2.0151 | grad_norm 0.9 | lr 1.00e-05", {"step": 7, "loss": 2.0151}),
    "verl": (
        "step:12 - actor/pg_loss:-0.0123 - actor/lr:1e-06 - critic/rewards/mean:0.251 - critic/rewards/max:1.0",
        {"step": 12, "loss": -0.0123, "reward": 0.251},
    ),
    "nccl": ("# Avg bus bandwidth    : 412.7", {"bus_bandwidth": 412.7}),
}


@pytest.mark.parametrize("name", METRIC_PRESETS)
def test_a_preset_reads_a_line_of_its_program(name: str) -> None:
    line, expected = LINES[name]
    found = {key: re.search(pattern, line) for key, pattern in METRIC_PRESETS[name].items()}
    assert {key: float(match.group(1)) for key, match in found.items() if match} == expected


def test_what_tensorboard_writes_is_read(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    earlier = SummaryWriter(tmp_path / "tb")
    earlier.add_scalar("Loss/train", 9.0, 1)
    earlier.close()
    files = MetricFiles(tmp_path, "tb")
    assert list(files.new()) == [], "an earlier attempt wrote that"
    writer = SummaryWriter(tmp_path / "tb" / "version_1")
    for step in (2, 300):
        writer.add_scalar("Loss/train", 1 / step, step)
        writer.add_scalar("lr", 1e-4, step, new_style=True)
        writer.add_text("note", "no number", step)
    writer.flush()
    found = list(files.new())
    assert [sorted(each) for each in found] == [["Loss/train", "step"], ["lr", "step"]] * 2
    assert [each["step"] for each in found] == [2, 2, 300, 300]
    assert found[2]["Loss/train"] == pytest.approx(1 / 300) and found[3]["lr"] == pytest.approx(1e-4)
    writer.add_scalar("lr", 0.5, 301)
    writer.close()
    assert list(files.new()) == [{"step": 301, "lr": 0.5}]


def test_half_a_line_and_half_a_record_wait_for_the_rest(tmp_path: Path) -> None:
    files = MetricFiles(tmp_path, "*.jsonl")
    file = tmp_path / "training.jsonl"
    file.write_text('{"iteration": 1, "loss": 2.5, "done": true, "name": "x"}\nno json\n{"iteration": 2, ')
    assert list(files.new()) == [{"iteration": 1, "loss": 2.5, "step": 1}]
    with file.open("a") as opened:
        opened.write('"loss": 2.25}\n')
    assert list(files.new()) == [{"iteration": 2, "loss": 2.25, "step": 2}]
    assert list(files.new()) == []


WRITES = """
import json, os, pathlib
file = pathlib.Path(os.environ["TRAINWAY_OUTPUT"]) / "logs" / "training.jsonl"
file.parent.mkdir(exist_ok=True)
with file.open("a") as opened:
    for step in (1, 2):
        opened.write(json.dumps({"step": step, "loss": 1 / step}) + "\\n")
"""


def test_the_starter_keeps_the_numbers_of_each_attempt_once(tmp_path: Path) -> None:
    program = load_program(
        write_foreign_job(tmp_path, metrics="logs/training.jsonl", command=["python3", "-c", WRITES])
    )
    assert METRICS.name in program.files and program.metrics == ()
    assert load_program(write_foreign_job(tmp_path, metrics="titan")).metrics == tuple(METRIC_PRESETS["titan"].items())
    told = {"PATH": "/usr/bin:/bin", "TRAINWAY_RUN": str(tmp_path), "TRAINWAY_OUTPUT": str(tmp_path / "outputs")}
    assert program.started_by is not None
    for _ in range(2):
        command = [sys.executable, str(STARTER), *program.started_by, "--", *program.command]
        subprocess.run(command, env=told, check=True, timeout=60)
    events = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(each["event"], each["step"], each["loss"]) for each in events] == [
        ("metrics", 1, 1.0),
        ("metrics", 2, 0.5),
    ] * 2
    attempts = [json.loads((tmp_path / f"attempts/{each}/node-0.json").read_text()) for each in (1, 2)]
    assert all(each["outcome"] == "succeeded" and each["started"] <= each["time"] for each in attempts)


@pytest.mark.parametrize("said", ["trainr", "/abs/x.jsonl", "../x.jsonl", "tensorboard:/runs", "x.csv"])
def test_what_is_no_source_of_metrics_is_refused(said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="neither a known program nor files with metrics"):
        load_program(write_foreign_job(tmp_path, metrics=said))
