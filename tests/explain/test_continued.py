"""A program that continued after trouble has no failure, and one that ended in trouble has."""

from __future__ import annotations

import pytest

from trainway.explain import Evidence, Log, explain
from trainway.explain.continued import since_trouble

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
# The traceback of an exception that the program caught, and the traceback of a process that ended.
CAUGHT = (
    f"Traceback (most recent call last):\n  File 'train.py', line 3, in training_step\n    loss.backward()\n{MEMORY}"
)
ENDED = CAUGHT.replace("training_step", "<module>")
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
@pytest.mark.parametrize("before", [CAUGHT, SLOW])
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
        f"step=101 loss=2.3\nstep=102 loss=2.2\n{CAUGHT}",
        "step=101 loss=2.3\nstep=102 loss=2.2\nRuntimeError: the training completed too early",
    ],
)
def test_what_no_further_steps_follow_is_a_failure(after: str) -> None:
    names = found(f"step=100 loss=2.4\n{CAUGHT}\n{after}\n")
    assert names, after
    if "completed too early" not in after:
        assert names[0] == "gpu-memory"


@pytest.mark.parametrize(
    "after",
    [
        "Epoch 0 step 10 loss 9.1\nEpoch 0 step 20 loss 8.7\nEpoch 0 step 30 loss 8.1",
        "wandb:   train/epoch 0.49\nwandb:   train/global_step 98\nwandb:   train/loss 2.31",
        "Epoch 3:  45%|####5     | 450/1000 [05:00<06:06,  1.50it/s, v_num=0]",
        " 12%|# | 120/1000 [01:12<08:50, 1.66it/s]\nEpochs:  33%|### | 1/3 [11:12<22:24, 672.3s/it]",
        "srun: error: gpu01: task 0: Exited with exit code 1\nJob finished at Fri Nov 20 10:05:00 UTC 2026",
        "Training complete. Exit code: 1",
        "[pod/llm-0/log-shipper] upload job completed, 12 files",
        "step=101 loss=1\nstep=102 loss=1",
    ],
)
def test_lines_that_follow_the_end_of_a_process_are_none_of_its_steps(after: str) -> None:
    assert found(f"step=98 loss=2.4\nstep=100 loss=2.4\n{ENDED}\n{after}\n") == ["gpu-memory"]


def test_a_process_that_began_again_makes_steps_that_were_made_before() -> None:
    assert found(f"step=99 loss=2.4\nstep=100 loss=2.4\n{ENDED}\nstep=90 loss=2.4\nstep=91 loss=2.3\n") == []


def test_libraries_do_without_an_optional_import() -> None:
    absent = ENDED.replace(MEMORY, "ModuleNotFoundError: No module named 'flash_attn'")
    assert found(f"{absent}\nfalling back to sdpa\nstep=1 loss=2\nstep=2 loss=1\nTraining completed\n") == []
    assert found(f"{absent}\n") == ["module-missing"]


def test_a_job_that_slurm_ended_makes_steps_until_it_is_gone() -> None:
    limit = "slurmstepd: error: *** STEP 80.0 ON gpu01 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***"
    assert found(f"step=1199 loss=2\n{limit}\nstep=1200 loss=2\nstep=1201 loss=2\n")[0] == "slurm-time-limit"


def test_a_gpu_that_fell_off_the_bus_is_told_although_steps_follow() -> None:
    xid = "[1234.5] NVRM: Xid (PCI:0000:53:00): 79, pid=1234, GPU has fallen off the bus."
    assert found(f"step=100 loss=2\n{xid}\nstep=101 loss=2\nstep=102 loss=2\n") == ["xid-79"]


@pytest.mark.parametrize(
    ("stderr", "stdout", "names"),
    [
        (f"{CAUGHT}\nreducing batch size to 4\n", "step=1 loss=2\nTraining finished\n", []),
        (f"{ENDED}\n", "step=1 loss=2\nTraining finished\n", ["gpu-memory"]),
        (f"{CAUGHT}\n", "step=1 loss=2\nstep=2 loss=2\n", ["gpu-memory"]),
    ],
)
def test_a_process_that_is_done_has_overcome_what_its_other_stream_tells(
    stderr: str, stdout: str, names: list[str]
) -> None:
    logs = (Log("rank0/stderr.log", stderr, rank=0), Log("rank0/stdout.log", stdout, rank=0))
    assert [each.name for each in explain(Evidence(logs))] == names


def test_the_log_of_a_program_that_continued_keeps_the_numbers_of_its_lines() -> None:
    log = Log("a.log", f"{CAUGHT}\nstep=1 loss=2\nstep=2 loss=1\nlast")
    assert since_trouble(log).text.split("\n")[4:] == ["step=1 loss=2", "step=2 loss=1", "last"]


def test_what_lasts_counts_although_the_program_continues() -> None:
    text = "step=1/9 loss=nan\nstep=2/9 loss=nan\n"
    assert found(text) == found(text + "step=3/9 loss=nan\nstep=4/9 loss=nan\n") == ["loss-is-not-a-number"]
