"""The starter finds the step of a program in its progress bar. All lines were recorded from the real programs."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch.test_start_program import Started, python
from trainway.launch.node.node_of_run import LAUNCH
from trainway.launch.node.progress_bars import ProgressBars
from trainway.launch.node.run_state import NodeState
from trainway.launch.program.program import STARTER
from trainway.launch.runs.status import status_of

# tqdm 4.70.1, Lightning 2.6.6, transformers 5.24.0, and rich 15.0.0, run on 2026-11-29. The lines of keras follow
# https://github.com/keras-team/keras/blob/master/keras/src/utils/progbar.py and, of version 2,
# https://github.com/keras-team/keras/blob/v2.15.0/keras/utils/generic_utils.py (read 2026-11-29).
TRAINING = {
    "tqdm without a name": (" 10%|█         | 3/30 [00:00<00:01, 15.70it/s]", {"step": 3, "steps": 30}),
    "tqdm, slow": (" 67%|██████▋   | 2/3 [00:03<00:01,  1.51s/it]", {"step": 2, "steps": 3}),
    "tqdm in ASCII": ("steps:  40%|####      | 2/5 [00:00<00:00,  9.07step/s]", {"step": 2, "steps": 5}),
    "tqdm with a name": ("Training:  17%|█▋        | 5/30 [00:00<00:00, 49.73it/s]", {"step": 5, "steps": 30}),
    "tqdm without a total": ("train: 4it [00:00, 11.20it/s]", {"step": 4}),
    "tqdm with an epoch and a loss": (
        "Epoch 2/3:  20%|██        | 2/10 [00:00<00:00,  8.20it/s, loss=0.75, lr=1e-4]",
        {"step": 12, "steps": 30, "loss": 0.75},
    ),
    "tqdm by way of torchrun": (
        "[default0]: 25%|██▌       | 10/40 [00:00<00:01, 18.01it/s][default0]:",
        {"step": 10, "steps": 40},
    ),
    "two ranks on one line": (
        "[default1]: 30%|███       | 12/40 [00:00<00:01, 18.14it/s][default0]: 25%|██▌       | 10/40 "
        "[00:00<00:01, 18.01it/s]",
        {"step": 10, "steps": 40},
    ),
    "Lightning": (
        "Epoch 0:   5%|▌         | 1/20 [00:00<00:01, 18.27it/s, train_loss=0.553, loss=0.553]",
        {"step": 1, "loss": 0.553},
    ),
    "Lightning with rich": (
        "\x1b[2K\x1b[1A\x1b[2KEpoch 0/1  \x1b[35m━━\x1b[0m\x1b[35m╸\x1b[0m\x1b[90m━━━━━━━\x1b[0m 3/20 "
        "\x1b[2m0:00:00 • 0:00:01\x1b[0m \x1b[2;4m18.86it/s\x1b[0m \x1b[3mtrain_loss: 0.941\x1b[0m",
        {"step": 3, "steps": 40, "loss": 0.941},
    ),
    "Lightning with rich, later": (
        "Epoch 1/1  ━━━━━━━━━━━━━━━━━ 20/20 0:00:01 • 0:00:00 18.40it/s train_loss: 0.008",
        {"step": 40, "steps": 40, "loss": 0.008},
    ),
    "rich with a loss": (
        "Training ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 20/20 0:00:00 loss=0.1250",
        {"step": 20, "steps": 20, "loss": 0.125},
    ),
    "rich": ("Training ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 100% 0:00:00 20/20", {"step": 20, "steps": 20}),
    "keras 3": (
        "\x1b[1m 12/100\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m1s\x1b[0m 11ms/step "
        "- accuracy: 0.5312 - loss: 0.6931\b\b\b",
        {"step": 12, "steps": 100, "loss": 0.6931},
    ),
    "keras 2": (
        " 12/100 [==>...........................] - ETA: 1s - loss: 0.6931",
        {"step": 12, "steps": 100, "loss": 0.6931},
    ),
}
# Names of bars in Lightning 2.6.6, transformers 5.24.0, datasets 5.2.0, and huggingface_hub, and some of TRL, vLLM, and
# sentence-transformers.
OTHER = [
    "Training: |          | 0/? [00:00<?, ?it/s]",
    "  0%|          | 0/40 [00:00<?, ?it/s]",
    "model.safetensors:  40%|████      | 176M/440M [00:00<00:00, 1.60GB/s]",
    "model.safetensors:   3%|▎         | 12.3M/440M [00:01<00:34, 12.4MB/s]",
    "train.jsonl: 100%|██████████| 440/440 [00:00<00:00, 798kB/s]",
    "Map:  45%|████▌     | 450/1000 [00:01<00:01, 412.11 examples/s]",
    "Map (num_proc=4):  45%|████▌     | 450/1000 [00:01<00:01, 412.11it/s]",
    "Generating train split:  45%|████▌     | 450/1000 [00:01<00:01, 412.11 examples/s]",
    "Generating train split: 450it [00:01, 412.11it/s]",
    "Tokenizing train dataset:  45%|████▌     | 450/1000 [00:01<00:01, 412.11it/s]",
    "Loading checkpoint shards:  50%|█████     | 2/4 [00:01<00:01,  1.01s/it]",
    "Loading weights:  50%|█████     | 2/4 [00:01<00:01,  1.01s/it]",
    "Fetching 5 files:  40%|████      | 2/5 [00:01<00:01,  1.01s/it]",
    "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 16.90it/s]",
    "Validation DataLoader 0:  95%|█████████▌| 19/20 [00:00<00:00, 19.14it/s]\x1b[A",
    "Validation ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 100% 0:00:00 20/20",
    "Sanity Checking \x1b[35m━━━━\x1b[0m\x1b[35m╸\x1b[0m\x1b[90m━━━━\x1b[0m 1/2 \x1b[2m0:00:00 • -:--:--",
    "Working... ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 100% 0:00:00",
    "Evaluating:  50%|█████     | 5/10 [00:00<00:00, 22.60it/s, loss=0.5]",
    "Epoch 1/3 validation:  50%|█████     | 5/10 [00:00<00:00, 22.60it/s, loss=0.5]",
    "Epoch:  33%|███▎      | 1/3 [00:00<00:00,  9.99epoch/s]",
    "Epochs:  33%|███▎      | 1/3 [00:00<00:00,  9.99it/s]",
    "Training epochs:  33%|███▎      | 1/3 [00:00<00:00,  9.99it/s]",
    "Batches:  33%|███▎      | 1/3 [00:00<00:00,  9.99it/s]",
    "Processed prompts:  33%|███▎      | 1/3 [00:00<00:00,  9.99it/s]",
    "[default1]: 25%|██▌       | 10/40 [00:00<00:01, 18.01it/s]",
    "{'eval_loss': '1.233', 'eval_runtime': '0.5326', 'epoch': '1'}",
    "{'train_runtime': '3.25', 'train_samples_per_second': '49.23', 'train_loss': '1.49', 'epoch': '2'}",
    "downloaded 3/10 of the files",
]
STEP_10 = " 25%|██▌       | 10/40 [00:00<00:01, 17.00it/s]"
STEP_20 = " 50%|█████     | 20/40 [00:01<00:01, 17.83it/s]"
EVALUATION = [" 30%|███       | 3/10 [00:00<00:00, 28.06it/s]", "100%|██████████| 10/10 [00:00<00:00, 21.63it/s]"]
LONG_EVALUATION = " 60%|██████    | 60/100 [00:00<00:00, 22.60it/s]"
LOSS = "{'loss': '1.135', 'grad_norm': '1.538', 'learning_rate': '3.875e-05', 'epoch': '0.5'}"
LOSS_OF_VERSION_4 = "{'loss': 1.135, 'grad_norm': 1.538, 'learning_rate': 3.875e-05, 'epoch': 0.5}"
END = "{'train_runtime': '3.25', 'train_samples_per_second': '49.23', 'train_loss': '1.49', 'epoch': '2'}"
EPOCH_OF_LIGHTNING = "Epoch 1:   5%|▌         | 1/20 [00:00<00:01, 18.46it/s, train_loss=0.0283]"


def record(run: Path) -> None:
    """Write the record of a run on this machine that has ended."""
    ended = {"started": "2026-11-29", "ended": "2026-11-29", "exit_status": 0}
    (run / "launch.json").write_text(json.dumps({"target": "local", "handle": {"run": str(run)}, **ended}))


def numbers(lines: list[str]) -> list[dict[str, float]]:
    """Return what is found in each line with a number."""
    bars = ProgressBars()
    return [found for line in lines if (found := bars.read(line))]


@pytest.mark.parametrize(("line", "found"), TRAINING.values(), ids=TRAINING)
def test_a_bar_of_training_has_a_step(line: str, found: dict[str, float]) -> None:
    assert ProgressBars().read(line) == found


@pytest.mark.parametrize("line", OTHER)
def test_another_bar_has_none(line: str) -> None:
    assert "step" not in ProgressBars().read(line)


@pytest.mark.parametrize("line", ["'a' + ' ' * N + 'b'", "'a' + '1' * N", "'━' * N + 'x'"])
def test_a_long_line_does_not_hold_up_the_program(line: str) -> None:
    # The limit only ends a hang: the time once grew with the square of the length, and was ten minutes for these.
    code = "from trainway.launch.node.progress_bars import ProgressBars\nN = 400_000\n"
    subprocess.run([sys.executable, "-c", f"{code}assert ProgressBars().read({line}) == {{}}"], check=True, timeout=120)


@pytest.mark.parametrize(
    ("count", "more", "found"),
    [
        ("9" * 5000, "", {}),
        ("3", ", loss=1e999", {"step": 3, "steps": 9}),
    ],
    ids=["a count that Python does not read", "a loss that JSON does not have"],
)
def test_a_number_that_is_too_large_is_left_out(count: str, more: str, found: dict[str, float]) -> None:
    assert ProgressBars().read(f"Training:  33%|███▎      | {count}/9 [00:01<00:00, 1.0it/s{more}]") == found


def test_the_state_of_a_run_has_no_infinity() -> None:
    state = NodeState(1, 0.0, leads=True)
    state.take({"step": math.inf, "loss": math.inf})
    assert not state.has_step


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        ([STEP_10, *(f"{each}\x1b[A" for each in EVALUATION), STEP_10, STEP_20], [10, 10]),
        ([STEP_10, LOSS, *(f"{each}\x1b[A" for each in EVALUATION), STEP_20], [10, 20]),
        ([STEP_10, STEP_20, *EVALUATION], [10, 20]),
        ([STEP_10, LOSS, LONG_EVALUATION, STEP_20], [10, 20]),
        ([STEP_10, LOSS, STEP_20, END, LONG_EVALUATION], [10, 20]),
        ([STEP_20, LOSS, END, STEP_10], [20]),
        ([EVALUATION[1], STEP_10], [10, 10]),
        ([STEP_10, "Steps:   5%|▌         | 1/20 [00:00<00:01, 18.46it/s]", STEP_20], [10, 1]),
        # `for epoch in tqdm(range(3))`, around a bar of each epoch.
        ([f"{EVALUATION[1]}\x1b[A", " 33%|███▎      | 1/3 [00:01<00:03,  1.50s/it]"] * 2, []),
        (["Training: |          | 0/? [00:00<?, ?it/s]", EPOCH_OF_LIGHTNING], [21]),
        (["Epoch 0: 100%|██████████| 20/20 [00:01<00:00, 18.51it/s]", EPOCH_OF_LIGHTNING], [20, 21]),
        ([EPOCH_OF_LIGHTNING], [1]),
        (["Epoch 2/5", " 12/100 [==>...........................] - ETA: 1s - loss: 0.6931"], [112]),
        (
            [
                "Epoch 5/5",
                "100/100 [==============================] - 1s - loss: 0.6931",
                "10/10 [====] - 0s - loss: 0.5",
            ],
            [500],
        ),
    ],
    ids=[
        "an evaluation in between",
        "an evaluation of the Trainer in between",
        "an evaluation at the end",
        "an evaluation that is longer than the training",
        "a longer evaluation at the end",
        "an evaluation at the end that is as long as the training",
        "a bar of the data before",
        "a bar with a name is surer",
        "a bar of epochs",
        "Lightning counts epochs from 0",
        "a program that counts epochs from 0",
        "a program that counts epochs from 1",
        "keras",
        "an evaluation of keras",
    ],
)
def test_of_several_bars_that_of_the_training_counts(lines: list[str], steps: list[int]) -> None:
    assert [found["step"] for found in numbers(lines) if "step" in found] == steps


@pytest.mark.parametrize("line", [LOSS, LOSS_OF_VERSION_4])
def test_the_loss_of_the_trainer_is_in_its_dictionary(line: str) -> None:
    assert ProgressBars().read(line) == {"loss": 1.135}


BAR = r"""
import sys
for n in range(2000):
    sys.stderr.write('\rTraining: 50%%|#####     | %d/2000 [00:01<00:01, 18.0it/s, loss=0.5]' % (n + 1))
# tqdm clears a bar with `leave=False`.
sys.stderr.write('\r' + ' ' * 80 + '\r\n')
"""


def test_a_step_of_a_bar_is_progress_and_is_in_the_status_and_not_in_the_metrics(tmp_path: Path) -> None:
    started = Started(tmp_path, *python(BAR))
    assert started.ends()[0] == 0
    record(tmp_path)
    row = status_of(tmp_path)
    assert (row.step, row.loss) == ("2000/2000", 0.5) and not (tmp_path / "metrics.jsonl").exists()
    Started(tmp_path / "second", *python(BAR), TRAINWAY_NODE_RANK="1").ends()
    assert not (tmp_path / "second/progress.json").exists(), "one node is enough"


@pytest.mark.parametrize(
    ("written", "is_progress"),
    [(STEP_10, False), (f"{STEP_10}\n{LOSS}", True), (f"Training: {STEP_10}", True)],
    ids=["a bar of anything", "a bar of the Trainer", "a bar with a name"],
)
def test_a_bar_without_a_name_is_no_progress_of_an_attempt_that_fails(
    written: str, is_progress: bool, tmp_path: Path
) -> None:
    # Otherwise, a program that fails after it has read its files would start again and again.
    node = tmp_path / "node"
    shutil.copytree(STARTER.parent, node)
    (node / LAUNCH).write_text("one")
    started = Started(tmp_path, *python(f"print({written!r})\nraise SystemExit(1)"), starter=node / STARTER.name)
    assert started.ends()[0] == 1 and started.record()["progress"] is is_progress
    record(tmp_path)
    assert status_of(tmp_path).step == "10/40"


@pytest.mark.parametrize("text", ["", "[]", '{"step": "<b>"}'])
def test_a_damaged_file_of_progress_is_no_step(text: str, tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(text)
    record(tmp_path)
    assert status_of(tmp_path).step is None


def test_the_patterns_of_the_job_file_win(tmp_path: Path) -> None:
    Started(tmp_path, "--metric=step=no such line (\\d+)", *python(BAR)).ends()
    Started(tmp_path, "--metric-files=*.jsonl", *python(BAR)).ends()
    assert not (tmp_path / "progress.json").exists() and not (tmp_path / "metrics.jsonl").exists()


def test_the_pace_of_a_run_does_not_follow_a_clock_that_jumps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    state = NodeState(1, 0.0, leads=True)
    for step, clock in enumerate((1e9, 1e9 - 86_400), 1):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        state.take({"step": step})
    assert state._paces[0] >= 0
