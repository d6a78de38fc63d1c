"""Evidence is gathered from what runs really leave: a run of this machine's torchrun, and files that people keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.explain import Confidence, as_text, evidence_in, evidence_of_run, explain, gather
from trainway.launch.local import LocalLaunch, run_local
from trainway.launch.program.rank_launchers import logging_to, one_node
from trainway.launch.runs.run_directory import recorded_launch
from trainway.spec.errors import UsageError

# Rank 1 fails by itself; rank 0 says so loudly until torchrun ends it.
FAILING = """
import os, sys, time
if os.environ["RANK"] == "1":
    class ShardMissing(Exception):
        pass
    raise ShardMissing("shard 00412 of 00999")
while True:
    print("RuntimeError: Connection reset by peer", file=sys.stderr, flush=True)
    time.sleep(0.1)
"""


def test_a_run_of_this_machine_names_the_rank_that_failed_by_itself(tmp_path: Path) -> None:
    script, run = tmp_path / "failing.py", tmp_path / "run"
    script.write_text(FAILING)
    environment = {**one_node(2, max_restarts=0), **logging_to(run / "logs", shown_ranks="1"), "OMP_NUM_THREADS": "1"}
    assert run_local(LocalLaunch(("torchrun", str(script)), environment), run, {}) != 0

    evidence = evidence_of_run(run)
    assert evidence.succeeded is False
    # torchrun tells of rank 0 as well, which it stopped.
    assert {exit_.rank: exit_.status for exit_ in evidence.exits}[1] == 1
    (first, *_) = explain(evidence)
    assert first.confidence is Confidence.UNKNOWN
    assert first.quote.text.endswith("ShardMissing: shard 00412 of 00999")
    assert first.quote.local_rank == 1
    assert first.quote.name.endswith("attempt_0/1/stderr.log")


def test_a_run_that_was_stopped_says_so(tmp_path: Path) -> None:
    with recorded_launch(tmp_path, {}, ("torchrun",), {}, {}) as record:
        record["stopped_by"] = "SIGTERM"
        record["exit_status"] = 1
    (first, *_) = explain(evidence_of_run(tmp_path))
    assert first.name == "stopped-by-hand"
    assert "stopped by SIGTERM" in first.cause


def test_a_run_that_succeeded_has_nothing_to_explain(tmp_path: Path) -> None:
    with recorded_launch(tmp_path, {}, ("torchrun",), {}, {}) as record:
        record["exit_status"] = 0
    logs = tmp_path / "logs" / "none_x" / "attempt_0" / "0"
    logs.mkdir(parents=True)
    (logs / "stderr.log").write_text(
        "Traceback (most recent call last):\nValueError: of a thread that was tried again\n"
    )
    assert explain(evidence_of_run(tmp_path)) == ()


def test_a_job_that_failed_without_a_word_is_not_explained_by_nothing(tmp_path: Path) -> None:
    with recorded_launch(tmp_path, {}, ("torchrun",), {}, {}) as record:
        record["exit_status"] = 1
    (first,) = explain(evidence_of_run(tmp_path))
    assert first.confidence is Confidence.UNKNOWN
    assert "exit status 1" in first.cause


def test_only_the_newest_start_of_a_run_is_looked_at(tmp_path: Path) -> None:
    with recorded_launch(tmp_path, {}, ("torchrun",), {}, {}) as record:
        record["exit_status"] = 1
    for start, words in (("a_1", "KeyError: 'of before'"), ("b_2", "IndexError: of now")):
        logs = tmp_path / "logs" / start / "attempt_0" / "0"
        logs.mkdir(parents=True)
        (logs / "stderr.log").write_text(f"Traceback (most recent call last):\n  File x\n{words}\n")
    (first,) = explain(evidence_of_run(tmp_path))
    assert first.quote.text == "IndexError: of now"


def test_the_end_of_long_logs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_BYTES", 4096)
    monkeypatch.setattr(gather, "_LEAST_BYTES", 1024)
    lines = ["ValueError: of long ago", *(f"step={step}/9999 loss=2.9" for step in range(9999))]
    (tmp_path / "rank_3.log").write_text("\n".join([*lines, "OSError: [Errno 116] Stale file handle: '/fsx/x'\n"]))
    evidence = evidence_in(tmp_path)
    assert len(evidence.logs[0].text) == 4096
    (first,) = explain(evidence)
    assert (first.name, first.quote.rank) == ("stale-file-handle", 3)


@pytest.mark.parametrize("read", [evidence_in, evidence_of_run])
def test_a_directory_without_logs_is_refused_in_one_sentence(tmp_path: Path, read: object) -> None:
    with pytest.raises(UsageError, match="cannot be explained"):
        read(tmp_path / "absent")  # type: ignore[operator]


def test_several_processes_that_say_the_same_are_counted(tmp_path: Path) -> None:
    for rank in range(8):
        words = (
            f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU {rank} has\n"
        )
        (tmp_path / f"rank_{rank}.log").write_text(words)
    (first,) = explain(evidence_in(tmp_path))
    assert (first.quote.rank, first.others) == (0, 7)
    assert "7 more say the same" in as_text((first,))


def test_the_error_file_of_torchrun_is_read_and_a_pickle_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

    error = tmp_path / "none_x" / "attempt_0" / "3" / "error.json"
    error.parent.mkdir(parents=True)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(error))
    try:
        raise OSError(116, "Stale file handle", "/fsx/x")
    except OSError as raised:
        ErrorHandler().record_exception(raised)
    (tmp_path / "flight-recorder-rank-3").write_bytes(b"\x80\x04\0\0MemoryError: a\n")
    (first,) = explain(evidence_in(tmp_path))
    assert (first.name, first.quote.local_rank) == ("stale-file-handle", 3)
