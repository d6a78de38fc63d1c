"""Long lines and lines with misleading words hide no failure, cause no false finding, and are read quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.explain import Evidence, Log, evidence_in, explain

NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
ILLEGAL = "CUDA error: an illegal memory access was encountered"
TRACEBACK = "Traceback (most recent call last):\n  File 'train.py', line 3, in <module>\n    main()\n"


def names(text: str, *, succeeded: bool | None = None) -> list[str]:
    return [each.name for each in explain(Evidence((Log("job.out", text),), succeeded=succeeded))]


@pytest.mark.parametrize(
    "text",
    [
        "step 1\nWarning Gradient overflow detected, skipping step\nstep=2 loss=1\n",
        "rank 0 Warning Falling back to slow tokenizer\nstep=1\nstep=2\nTraining finished\n",
        "NAME READY STATUS RESTARTS AGE\nsft-0   0/1     Init:0/2   0          5s\n",
        "UserWarning: x\nEpoch 1/10 done in 312 5m12s\n",
        "DeprecationWarning: x\nstep 1/10 Forward pass 12 5s\n",
        f"step=100 loss=1\n{TRACEBACK}{NO_MEMORY}srun: error: n1: task 0: Exited with exit code 1\n"
        + "".join(f"step={step} loss=1\n" for step in range(100, 140)),
    ],
)
def test_ordinary_lines_are_no_events_and_no_failures(text: str) -> None:
    assert names(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"rank 3 Warning Caught RuntimeError: {ILLEGAL}\n", "gpu-illegal-access"),
        (f"Normal Training stopped: {ILLEGAL}\n", "gpu-illegal-access"),
        (f"wandb: WARNING Calling wandb.login() has no effect.\n{TRACEBACK}{NO_MEMORY}", "gpu-memory"),
        (f"[WARNING] job: {NO_MEMORY}", "gpu-memory"),
        (
            f"{TRACEBACK}{NO_MEMORY}ERROR conda.cli.main_run:execute(49): `conda run python a.py` failed.\n",
            "gpu-memory",
        ),
        (
            "NAMESPACE NAME READY STATUS RESTARTS AGE\na  sft-0   0/1     ImagePullBackOff   0   5s\n"
            "b  sft-0   1/1     Running   0   5s\n",
            "image-not-pulled",
        ),
    ],
)
def test_no_failure_is_hidden(text: str, name: str) -> None:
    assert names(text, succeeded=False)[0] == name


def test_a_log_with_null_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(f"step 1\n\0\0\0\n{TRACEBACK}{NO_MEMORY}")
    assert [each.name for each in explain(evidence_in(tmp_path))] == ["gpu-memory"]


# Matching took minutes or hours. A hang ends with the limit of the whole run.
@pytest.mark.parametrize("filler", ["1 ", "a", "1", "word.", "a/b:", "exit code ", "x, y ", "- "])
@pytest.mark.parametrize("end", ["Warning: x", "Normal", "RuntimeWarning: overflow", "RuntimeError: the mesh"])
def test_a_line_of_any_length_is_read(filler: str, end: str) -> None:
    line = filler * (60_000 // len(filler)) + end
    assert names(f"{TRACEBACK}{NO_MEMORY}{line}\n{end} {line}\n")[0]
