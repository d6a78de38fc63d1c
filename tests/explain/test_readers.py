"""Causes that follow from the numbers or the fields of a message, and not from its words alone."""

from __future__ import annotations

import pytest

from trainway.explain import Evidence, Log, explain
from trainway.explain.slurm import read_records
from trainway.explain.suspects import suspect_line


def names(*lines: str) -> list[str]:
    return [each.name for each in explain(Evidence((Log("posted.log", "\n".join(lines)),)))]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 2; 31.75 GiB total capacity; 3.94 GiB already "
            "allocated; 17.75 MiB free; 61.40 MiB cached; 0 bytes inactive)",
            "gpu-busy",
        ),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 31.75 GiB total capacity; 28.10 GiB already "
            "allocated; 1.20 GiB free; 29.40 GiB reserved in total by PyTorch)",
            "gpu-memory",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "79.15 GiB of which 1.06 GiB is free. Process 41 has 70.02 GiB memory in use. Including non-PyTorch "
            "memory, this process has 8.05 GiB memory in use. Of the allocated memory 7.00 GiB is allocated by PyTorch",
            "gpu-busy",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "79.15 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 78.05 GiB memory in "
            "use.",
            "gpu-memory",
        ),
    ],
)
def test_memory_that_other_processes_hold_is_told_from_ones_own(message: str, name: str) -> None:
    assert names(message)[0] == name


@pytest.mark.parametrize(
    ("reasons", "name"),
    [
        ("2 Insufficient nvidia.com/gpu, 6 node(s) didn't match Pod's node affinity/selector.", "no-node-matches"),
        ("4 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector.", "too-few-gpus"),
        ("1 node(s) didn't match pod affinity rules, 5 Insufficient nvidia.com/gpu.", "scheduler-says"),
        ("1 Too many pods, 5 node(s) didn't match Pod's node affinity/selector.", "too-many-pods"),
    ],
)
def test_a_reason_that_excludes_all_nodes_comes_before_one_that_excludes_some(reasons: str, name: str) -> None:
    sentence = f"0/6 nodes are available: {reasons}"
    assert names(sentence)[0] == name
    assert names(f"  Warning  FailedScheduling  64s (x4 over 16m)  default-scheduler  {sentence}")[0] == name


def test_an_xid_that_an_earlier_one_caused_is_the_earlier_one() -> None:
    line = "kernel: NVRM: Xid (PCI:0000:5d:00): 45, pid=73302, name=python, Ch 00000002"
    assert names(f"{line} caused by previous Xid 149") == ["xid-149"]
    assert names(line) == []


def test_records_of_slurm_in_a_log_are_read() -> None:
    posted = (
        "$ scontrol show job 2087714",
        "JobId=2087714 JobName=relax-0418",
        "   Priority=4021 Nice=0 Account=matsci QOS=normal",
        "   JobState=PENDING Reason=AssocMaxWallDurationPerJobLimit Dependency=(null)",
        "",
        "TotalNodes=4 is a line of a program",
    )
    assert names(*posted) == ["slurm-can-never-run"]
    (log,) = read_records(Evidence((Log("posted.log", "\n".join(posted)),))).logs
    assert log.text.split("\n") == [posted[0], "", "", "", "", posted[-1]]


def test_what_a_finalizer_raises_fails_nothing() -> None:
    raised = ("Traceback (most recent call last):", '  File "/app/pipe.py", line 12, in {}', "    self.close()")
    error = "OSError: exit 1 (read)"
    assert names(*(line.format("__del__") for line in raised), error) == []
    assert names(*(line.format("<module>") for line in raised), error) == ["unknown"]


def test_a_job_that_has_done_its_work_does_not_need_more_time() -> None:
    limit = "slurmstepd: error: *** STEP 1184062.1 ON gpu-c214 CANCELLED AT 2025-10-21T03:38:17 DUE TO TIME LIMIT ***"
    assert names("[after training is done] datetime: 2025-10-21 03:26:40", limit)[0] == "ended-and-hung"
    assert names("step 100, loss 2.1", limit)[0] == "slurm-time-limit"


def test_a_hint_is_no_cause() -> None:
    sent = "node-a:46:51 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0"
    (hint,) = explain(Evidence((Log("posted.log", sent),)))
    assert hint.is_hint
    first, second = explain(Evidence((Log("posted.log", sent),), succeeded=False))
    assert first.name == "unknown" and second.is_hint


def test_an_error_that_quotes_a_warning_is_an_error() -> None:
    error = "UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress"
    assert names(f"Returned: Error: b'WARNING: the file is group-readable.\\nError: {error}\\n'") == ["helm-pending"]


def test_what_a_controller_tried_again_is_overcome_by_pods_that_run() -> None:
    error = '2022-03-15T13:02:08Z ERROR Reconcile PyTorchJob error {"error": "PyTorchJob \\"a\\" is invalid: status"}'
    table = ("NAME READY STATUS RESTARTS AGE", "a-master-0 1/1 {} 0 64s")
    assert names(error, *(line.format("Running") for line in table)) == []
    assert names(error, *(line.format("Pending") for line in table)) == ["request-denied"]


def test_pytorchs_warnings_of_a_try_count_only_where_the_process_ended() -> None:
    warned = (
        "[W1121 10:04:11.507 socket.cpp:755] [c10d] The IPv6 network addresses of (job-0-0.job, 29500) cannot be "
        "retrieved (gai error: -2 - Name or service not known)."
    )
    assert names(warned, warned) == []
    ended = ("Traceback (most recent call last):", '  File "/app/train.py", line 3, in <module>', "RuntimeError: x")
    assert names(warned, *ended)[0] == "rendezvous-name"


def test_messages_that_a_program_says_to_ignore_are_overcome() -> None:
    error = ("Traceback (most recent call last):", '  File "/app/ray.py", line 3, in check', "RpcError: refused")
    assert names(*error) == ["unknown"]
    assert names(*error, "GCS is ready. Any error messages above can be safely ignored.") == []


def test_a_volume_is_mounted_once_the_image_is_pulled() -> None:
    event = "  {}  {}  11m  kubelet  {}"
    refused = event.format("Warning", "FailedMount", 'MountVolume.SetUp failed for volume "token": timed out')
    assert names("Events:", refused)[0] == "volume-not-mounted"
    assert names("Events:", refused, event.format("Normal", "Pulled", "Container image present on machine")) == []


def test_an_exception_that_tells_only_a_status_leads_to_what_the_program_said() -> None:
    said = "Unsupported config option for services.algo-1: 'deploy'"
    raised = ("Traceback (most recent call last):", '  File "/app/run.py", line 3, in <module>')
    (found,) = explain(Evidence((Log("x", "\n".join((said, *raised, "RuntimeError: Process exited with code: 1"))),)))
    assert found.name == "unknown" and found.quote.line == 4, "the line has no word of an error"
    told = f"error: {said}"
    (found,) = explain(Evidence((Log("x", "\n".join((told, *raised, "RuntimeError: Process exited with code: 1"))),)))
    assert found.quote.text == told


def test_without_errors_the_line_that_warns_is_shown() -> None:
    line = "WARNING: Retrying after connection broken: Failed to establish a new connection"
    quote = suspect_line(Evidence((Log("x", f"Collecting lightgbm\n{line}"),)))
    assert quote is not None and quote.text == line
