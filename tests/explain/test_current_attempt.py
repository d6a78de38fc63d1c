"""The launcher's verdict is taken, and what a job wrote before its last restart does not explain its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.explain import Confidence, Evidence, Log, as_text, evidence_in, explain
from trainway.explain.gather import with_exits

SUMMARY = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-25_10:14:29
  host      : ip-10-0-16-7
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 905)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 905
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_10:14:30
  host      : ip-10-0-16-7
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 906)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 906
============================================================
"""
STOPPED = "torch.distributed.elastic.multiprocessing.api: Received 15 death signal, shutting down workers\n"
START = "start job=llama-8b model=8b parameters=8030261248 world_size=8\n"
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5\n"


def test_a_rank_that_was_killed_is_named_and_not_those_that_were_stopped_because_of_it() -> None:
    first, *others = explain(with_exits([Log("torchrun.log", STOPPED + SUMMARY)]))
    assert (first.name, first.quote.rank) == ("killed", 1)
    assert "told-to-stop" not in {each.name for each in others}


def test_what_others_say_of_a_rank_that_was_killed_comes_after_it() -> None:
    timeout = (
        "[rank0]:[E1125 10:14:29.1 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600004 milliseconds\n"
    )
    first, second = explain(with_exits([Log("torchrun.log", timeout + SUMMARY)]))[:2]
    assert (first.name, second.name) == ("killed", "nccl-timeout")


def test_the_agents_own_line_is_a_verdict_where_the_log_ends_before_the_summary() -> None:
    line = "E1125 10:14:33 812 api.py:982] failed (exitcode: -9) local_rank: 3 (pid: 906) of binary: /usr/bin/python3\n"
    (first,) = explain(with_exits([Log("node-1.out", line, node="node-1")]))
    assert (first.name, first.quote.local_rank, first.quote.node) == ("killed", 3, "node-1")


@pytest.mark.parametrize(
    ("line", "rank", "node"),
    [
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL", 1, None),
        ("mpirun noticed that process rank 5 with PID 77 on node n2 exited on signal 9 (Killed).", 5, "n2"),
        ("srun: error: n3: task 7: Killed", 7, "n3"),
    ],
)
def test_other_launchers_say_which_rank_was_killed(line: str, rank: int, node: str | None) -> None:
    (first,) = explain(with_exits([Log("job.out", line + "\n")]))
    assert (first.name, first.quote.rank, first.quote.node) == ("killed", rank, node)


def test_a_failure_before_the_last_start_in_one_log_is_not_the_cause() -> None:
    text = START + NO_MEMORY + START + "step=1/9 loss=2.9\nKeyError: 'tokens'\n"
    first, *others = explain(with_exits([Log("job.out", text)]))
    assert (first.quote.text, first.quote.line) == ("KeyError: 'tokens'", 5)
    assert others == []


def test_a_failure_before_the_last_start_counts_where_nothing_came_after_it() -> None:
    first, *_ = explain(Evidence((Log("job.out", START + NO_MEMORY + START),), succeeded=False))
    assert first.name == "gpu-memory"


def test_what_another_log_says_of_the_time_before_the_last_start_is_not_the_cause() -> None:
    job = f"2026-11-25T10:00:00Z {START}2026-11-25T11:00:00Z {START}2026-11-25T11:05:00Z KeyError: 'tokens'\n"
    other = f"2026-11-25T10:30:00Z {NO_MEMORY}"
    first, *others = explain(with_exits([Log("rank-0.out", job), Log("rank-5.out", other)]))
    assert first.quote.text == "KeyError: 'tokens'"
    assert others == []


def test_torchruns_restart_begins_an_attempt() -> None:
    restart = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    first, *others = explain(with_exits([Log("job.out", NO_MEMORY + restart + "OSError: [Errno 28] No space left\n")]))
    assert first.name == "unknown"
    assert others == []


def test_a_job_that_succeeded_is_said_to_have() -> None:
    evidence = Evidence((Log("job.out", NO_MEMORY),), succeeded=True)
    assert explain(evidence) == ()
    assert as_text((), Evidence(succeeded=True)) == "it succeeded"
    assert "nothing" in as_text(())


@pytest.mark.parametrize(
    "text",
    ["step 1\nfatal error: cannot open shard 7\n", "step 1\nerror: no such tokenizer\n", "[ERROR] boot failed\n"],
)
def test_an_error_at_the_end_of_a_log_is_shown_without_a_traceback(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(text)
    (first,) = explain(evidence_in(tmp_path))
    assert first.confidence is Confidence.UNKNOWN
    assert first.quote.text == text.splitlines()[-1]


def test_an_error_after_which_the_job_went_on_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("error: no such shard\n" + "step\n" * 100)
    assert explain(evidence_in(tmp_path)) == ()
