"""A program that continued after trouble has no failure, and one that ended in trouble has."""

from __future__ import annotations

import pytest

from trainway.explain import Evidence, Log, explain
from trainway.explain.continued import since_trouble

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
TRACEBACK = f"Traceback (most recent call last):\n  File 'train.py', line 3, in <module>\n{MEMORY}"
SLOW = "botocore.exceptions.ClientError: An error occurred (SlowDown): Please reduce your request rate"


def found(text: str) -> list[str]:
    return [each.name for each in explain(Evidence((Log("a.log", text),)))]


@pytest.mark.parametrize(
    "after",
    [
        "step=101 loss=2.3\nstep=102 loss=2.2",
        "{'loss': 2.1, 'epoch': 1.02}\n{'loss': 2.0, 'epoch': 1.04}",
        " 10%|#  | 10/100 [00:01<00:09,  9.8it/s]\n 20%|## | 20/100 [00:02<00:08,  9.8it/s]",
        " iteration       10/     100 | loss: 2.1\n iteration       20/     100 | loss: 2.0",
        "Training finished. Model saved to /fsx/out",
        "{'train_runtime': 12.3, 'epoch': 1.0}",
        "Job 12 completed successfully\nException ignored in: <function a>\nBrokenPipeError: [Errno 32] Broken pipe",
    ],
)
@pytest.mark.parametrize("before", [TRACEBACK, SLOW])
def test_trouble_after_which_a_program_continued_is_no_cause(before: str, after: str) -> None:
    assert found(f"step=100 loss=2.4\n{before}\n{after}\n") == []


@pytest.mark.parametrize(
    "after",
    [
        "",
        # The ranks that share the log end the step in which one failed.
        "step=101 loss=2.3\nstep=101 loss=2.3",
        "the training is not finished",
        "waiting until the job is done",
        f"step=101 loss=2.3\nstep=102 loss=2.2\n{TRACEBACK}",
        "step=101 loss=2.3\nstep=102 loss=2.2\nRuntimeError: the training completed too early",
    ],
)
def test_what_no_further_steps_follow_is_a_failure(after: str) -> None:
    names = found(f"step=100 loss=2.4\n{TRACEBACK}\n{after}\n")
    assert names, after
    if "completed too early" not in after:
        assert names[0] == "gpu-memory"


def test_the_log_of_a_program_that_continued_keeps_the_numbers_of_its_lines() -> None:
    log = Log("a.log", f"{TRACEBACK}\nstep=1 loss=2\nstep=2 loss=1\nlast")
    assert since_trouble(log).text.split("\n")[4:] == ["step=2 loss=1", "last"]


def test_what_lasts_counts_although_the_program_continues() -> None:
    text = "step=1/9 loss=nan\nstep=2/9 loss=nan\n"
    assert found(text) == found(text + "step=3/9 loss=nan\nstep=4/9 loss=nan\n") == ["loss-is-not-a-number"]
