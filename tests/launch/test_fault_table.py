"""A fault ends a run with one sentence, and nothing is tried again that cannot succeed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis import ROOT
from trainway.launch.kubernetes import KINDS
from trainway.launch.kubernetes.job_state import job_state
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.node.failure_causes import SECONDS_OF_A_START, Causes
from trainway.launch.program.program import STARTER
from trainway.launch.sagemaker import watch
from trainway.launch.target.protocol import Phase

# A library whose package is absent, memory as PyTorch says it, and a disk that is really full.
FAULTS = {
    "missing package": ("import trl_of_nobody.trainer", "the Python package trl_of_nobody is absent: add the package"),
    "out of memory": (
        "class OutOfMemoryError(RuntimeError): pass\\n"
        "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11')",
        "the GPU is out of memory: CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "full disk": ("import os; os.write(os.open('/dev/full', os.O_WRONLY), b'x')", "no space is left on the disk"),
}

# The rows of the page's table, and the test that plants each fault.
PLANTED_IN = {
    "a wrong path": "test_any_program.py::test_code_that_is_absent_is_found_out_before_the_launch",
    "a package that does not exist": (
        "test_job_packages.py::test_packages_that_do_not_fit_are_refused_before_the_launch"
    ),
    "a package that no key names": "test_fault_table.py::test_a_fault_of_the_program_is_a_sentence_and_not_tried_again",
    "no image": "test_run_image.py::test_an_image_that_is_absent_or_for_another_processor_is_refused",
    "an image that a node cannot pull, on Kubernetes": (
        "test_fault_table.py::test_an_image_that_kubernetes_cannot_pull_is_a_sentence_and_the_node_tries_again"
    ),
    "an image that a node cannot import, under Slurm": (
        "slurm/test_script.py::test_a_run_without_its_image_ends_with_the_reason"
    ),
    "an image that SageMaker cannot pull": (
        "test_fault_table.py::test_an_image_that_sagemaker_cannot_pull_is_a_sentence_and_the_job_has_failed"
    ),
    "an absent secret": "test_secrets.py::test_a_secret_that_cannot_be_read_ends_the_run_with_a_sentence",
    "an absent input in S3": "test_run_inputs.py::test_what_is_absent_is_said_with_the_command_that_copies_it",
    "an absent input": "test_fault_table.py::test_an_input_that_is_absent_is_said_before_the_program_starts",
    "outputs that vanished": (
        "test_from_scratch.py::test_a_program_whose_outputs_vanish_is_refused_for_good_and_begins_anew_when_told"
    ),
    "options that the program refuses": (
        "test_start_program.py::test_a_program_that_refuses_its_options_is_not_started_again"
    ),
    "a mistake in the code, such as a name that is not defined": (
        "test_endings_of_programs.py::test_a_program_is_started_as_often_as_it_helps"
    ),
    "the same failure twice, without a new step": (
        "test_start_program.py::test_two_attempts_that_fail_in_the_same_way_without_a_step_end_the_launch"
    ),
    "out of GPU memory, or of the job's memory": (
        "test_fault_table.py::test_other_failures_are_tried_again_and_so_is_memory_after_a_while"
    ),
    "a full disk": "test_fault_table.py::test_a_fault_of_the_program_is_a_sentence_and_not_tried_again",
    "a hang": "test_silent_programs.py::test_a_program_that_hangs_is_ended_with_its_stacks",
}


def test_every_row_of_the_page_has_a_planted_fault() -> None:
    page = (ROOT / "docs" / "your-program.md").read_text(encoding="utf-8")
    table = page.partition("| Fault | What the launcher says | Tried again |")[2].partition("\n\n")[0]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]] == list(PLANTED_IN)
    for where in PLANTED_IN.values():
        file, _, name = where.partition("::")
        assert f"\ndef {name}(" in (ROOT / "tests" / "launch" / file).read_text(encoding="utf-8"), where


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_kubernetes_cannot_pull_is_a_sentence_and_the_node_tries_again(reason: str) -> None:
    waiting = {"reason": reason, "message": "r/x@sha256:1: not found"}
    status = {"phase": "Pending", "containerStatuses": [{"image": "r/x@sha256:1", "state": {"waiting": waiting}}]}
    pod = {"metadata": {"name": "first-0"}, "spec": {"nodeName": "ip-10-0-0-1"}, "status": status}
    for kind in KINDS:
        found = job_state({"kind": kind, "metadata": {"name": "first"}}, [pod], [])
        assert found.phase is Phase.STARTING, "the run is not over: the image may still be pushed"
        assert found.reason.startswith("ip-10-0-0-1 cannot pull the image r/x@sha256:1: r/x@sha256:1: not found. ")
        assert "`trainway stop` ends the run" in found.reason


@pytest.mark.parametrize(
    "said",
    [
        "Cannot pull algorithm container. Either the image does not exist or its permissions are incorrect.",
        "API error (404): manifest for r/x:1 not found: manifest unknown: Requested image not found",
    ],
)
def test_an_image_that_sagemaker_cannot_pull_is_a_sentence_and_the_job_has_failed(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: dict[str, Any] = {
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "FailureReason": f"ClientError: {said}",
    }
    answer["AlgorithmSpecification"] = {"TrainingImage": "r/x:1"}
    monkeypatch.setattr(watch, "_described", lambda _: answer)
    found = watch.state({"name": "first", "region": "us-west-2"})
    assert found.phase is Phase.FAILED
    assert found.reason.startswith(f"SageMaker cannot pull the image r/x:1: {said.rstrip('.')}. ")
    assert "`trainway explain`" in found.reason
    answer["FailureReason"] = "ClientError: Data download failed: no image of a cat was found"
    assert watch.state({"name": "first", "region": "us-west-2"}).reason == answer["FailureReason"]


def started(directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {"TRAINWAY_RUN": str(directory), "TRAINWAY_OUTPUT": str(directory / "outputs"), "PATH": os.environ["PATH"]}
    command = [sys.executable, str(STARTER), "--", *words]
    return subprocess.run(command, env={**told, **environment}, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_program_is_a_sentence_and_not_tried_again(fault: str, tmp_path: Path) -> None:
    text, why = FAULTS[fault]
    done = started(tmp_path, "python3", "-c", text.replace("\\n", "\n"))
    assert done.returncode == NOT_FOUND, done.stderr
    assert (tmp_path / "attempts/1/failure").read_text().startswith(why)
    assert f"trainway: failed on node 0: {why}" in done.stderr
    assert "ended with exit status 1)" in done.stderr


def test_an_input_that_is_absent_is_said_before_the_program_starts(tmp_path: Path) -> None:
    there, absent = {"TRAINWAY_INPUT_A": str(tmp_path)}, {"TRAINWAY_INPUT_CORPUS": "/fsx/corpus/absent"}
    done = started(tmp_path, "echo", "begun", **there, **absent)
    assert done.returncode == NOT_FOUND and "begun" not in done.stdout
    assert "the input corpus is absent: there is no /fsx/corpus/absent on the node" in done.stderr
    assert started(tmp_path, "echo", "begun", **there, TRAINWAY_INPUT_B="s3://bucket/b").stdout == "begun\n"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Failed to start Ray: Command '['ray', 'start', '--head', '--port=1']' returned non-zero exit status 1.", 1),
        ("Exception: The current node timed out during startup. This could happen because some of the raylet", 1),
        ("Exception: No node info found for head node in GCS. Did the head node or gcs start successfully?", 1),
        ("Failed to start Ray: Command '['ray', 'start', '--address', 'n1:6379']' returned non-zero exit status 1.", 0),
    ],
)
def test_a_ray_that_cannot_start_is_a_failure_although_its_exit_status_says_success(
    said: str, status: int, tmp_path: Path
) -> None:
    """As `ray symmetric-run` prints it on the first node, on another one, and there at the end of each run, too."""
    done = started(tmp_path, "python3", "-c", f"import sys; print({said!r}, file=sys.stderr)")
    assert done.returncode == status
    assert ("Ray cannot start on this node" in done.stderr) == bool(status)


def test_options_that_ray_refuses_are_a_sentence_and_not_tried_again(tmp_path: Path) -> None:
    """The line is from node 1 of a real Slurm cluster with Ray 2.60.0 (2026-11-26)."""
    line = "2026-11-26 17:15:23,728\tPANIC scripts.py:1204 -- `--include-dashboard` should only be specified when "
    line += "starting head node with `--head`."
    done = started(tmp_path, "python3", "-c", f"import sys; print({line!r}, file=sys.stderr)")
    assert done.returncode == NOT_FOUND
    assert "on node 0: `ray start` refuses its options on this node: `--include-dashboard` should only" in done.stderr


def test_other_failures_are_tried_again_and_so_is_memory_after_a_while() -> None:
    causes = Causes()
    causes.read("ValueError: loss is 3")
    assert causes.sentence(1, killed_for_memory=False) == ("", False)
    assert causes.sentence(1, killed_for_memory=True)[1] and "kernel" in causes.sentence(1, killed_for_memory=True)[0]
    causes.read("[default3]:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has")
    assert causes.sentence(SECONDS_OF_A_START + 1, killed_for_memory=False) == (
        "the GPU is out of memory: CUDA out of memory. Tried to allocate 20.00 MiB",
        False,
    )
    causes.read("OSError: [Errno 28] No space left on device: '/fsx/runs/a/ckpt'")
    assert causes.sentence(9999, killed_for_memory=False) == (
        "no space is left on the disk for /fsx/runs/a/ckpt: delete files, or write to another location",
        True,
    )
