"""The faults that a run survives, and the test that plants each of them.

`python -m tests.faults.table` writes the table of docs/recovery.md, with the figures of results.json.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs/recovery.md"
_KEPT_SPACE = "\x00"
BETWEEN = re.compile(r"\| Fault \|.*?(?=The tests plant each fault)", re.DOTALL)


class Fault(NamedTuple):
    """A fault, the reaction of the run, and the test that proves it."""

    name: str
    then: str
    loss: str
    """How the final loss compares with that of a run without the fault."""
    test: str
    """File below `tests/`, and the name of the test."""


SAME = "same bits"
CLOSE = "within 1e-6"
PROCESSES, HOSTS, STORAGE, CLOCKS = (f"faults/test_{name}.py" for name in ("processes", "hosts", "storage", "clocks"))
RESTARTS = "torchrun restarts all ranks"
SKIPS = "all ranks skip the checkpoint, and resume from the one before it"
REPLACED = "the other ranks end as hung, and all meet again when the host is replaced"

FAULTS = (
    Fault("A worker is killed", RESTARTS, SAME, f"{PROCESSES}::test_a_killed_worker"),
    Fault(
        "Workers are killed thirty times in one run",
        "each new checkpoint allows all restarts again",
        SAME,
        f"{PROCESSES}::test_thirty_kills_in_one_run",
    ),
    Fault(
        "Workers are killed under plain torchrun, whose store outlives them",
        "the restarted ranks agree on a part of the store that is only theirs",
        SAME,
        "training/test_attempt.py::test_plain_torchrun_restarts_without_any_variable",
    ),
    Fault(
        "torchrun is killed",
        "its ranks end with it, and the target starts torchrun again",
        SAME,
        f"{PROCESSES}::test_a_killed_agent_takes_its_ranks_along",
    ),
    Fault(
        "A worker is killed while it recovers",
        "ranks that wait for it end after a second, and torchrun restarts all again",
        SAME,
        f"{PROCESSES}::test_a_fault_during_recovery",
    ),
    Fault(
        "A worker is killed, and the newest checkpoint is truncated",
        SKIPS,
        SAME,
        f"{PROCESSES}::test_two_faults_at_once",
    ),
    Fault(
        "A rank is stopped (SIGSTOP)",
        "the watchdog ends all ranks, and torchrun restarts them",
        SAME,
        "training/test_watchdog.py::test_a_rank_that_is_stopped_is_named_and_the_run_restarts_to_the_same_loss",
    ),
    Fault(
        "A rank is slower than the others",
        "the run names the rank, its host, and its device, and continues",
        SAME,
        "training/test_stragglers.py::test_a_rank_of_a_run_that_is_slow_by_15_percent_is_named_as_long_as_it_is_slow",
    ),
    Fault(
        "C code holds Python's lock",
        "another rank of the host ends the rank, and torchrun restarts all",
        SAME,
        "training/test_watchdog.py::test_a_rank_that_holds_pythons_lock_writes_its_stacks_and_the_run_restarts",
    ),
    Fault(
        "A rank of the same host hangs twice within a day, and a spare host waits",
        "the run continues on the other hosts and the spare, says why, and leaves the host out",
        SAME,
        "faults/test_suspect_hosts.py::test_a_host_that_hangs_twice_is_left_out_while_a_spare_waits",
    ),
    Fault(
        "A rank of the same host hangs twice within a day, and no other host can replace it",
        "the run continues with the host, and says what an administrator does",
        SAME,
        "faults/test_suspect_hosts.py::test_a_host_that_hangs_twice_stays_where_no_other_can_take_its_place",
    ),
    Fault("A host is lost", REPLACED, SAME, f"{HOSTS}::test_a_lost_host_is_replaced"),
    Fault(
        "The host of the rendezvous is lost",
        "torchrun fails on the other hosts too, and all start again when the host is replaced and the lease of rank 0 "
        "has had no heartbeat for a minute",
        SAME,
        f"{HOSTS}::test_a_lost_host_of_the_rendezvous_is_replaced",
    ),
    Fault(
        "A host is lost and not replaced",
        "with `min_nodes`, the run continues on the other hosts",
        CLOSE,
        f"{HOSTS}::test_a_lost_host_that_is_not_replaced",
    ),
    Fault(
        "One of four hosts is lost, and replaced later",
        "with `min_nodes`, the run continues on three hosts, saves when the new host arrives, and continues on four",
        CLOSE,
        f"{HOSTS}::test_four_hosts_become_three_and_four_again",
    ),
    Fault(
        "A host is lost while a spare host waits in torchrun's rendezvous",
        "the run continues on the other hosts and the spare",
        SAME,
        f"{HOSTS}::test_a_lost_host_with_a_spare",
    ),
    Fault(
        "Nodes of Slurm lose power, one after the other",
        "Slurm starts the run again on other nodes",
        SAME,
        "launch/slurm/test_run.py::test_a_run_that_loses_node_after_node_ends_with_the_same_loss_and_no_one_touched_it",
    ),
    Fault(
        "A node of a Slurm job with a spare node loses power",
        "the job continues on the other nodes and the spare node",
        SAME,
        "launch/slurm/test_lost_nodes.py::test_a_spare_node_takes_the_place_of_a_lost_one",
    ),
    Fault(
        "A node of a Slurm job with `min_nodes` loses power",
        "the job continues on the other nodes",
        CLOSE,
        "launch/slurm/test_lost_nodes.py::test_a_run_continues_on_fewer_nodes",
    ),
    Fault(
        "A pod is evicted",
        "the run saves a checkpoint, and resumes when the pod is replaced",
        SAME,
        "launch/kubernetes/test_pods_run.py::test_a_node_that_is_taken_away_is_waited_for_and_the_loss_is_the_same",
    ),
    Fault(
        "A pod of a run with a spare node is lost",
        "the run continues on the other pods and the pod of the spare node",
        SAME,
        "launch/kubernetes/test_pods_run.py::test_a_spare_node_takes_the_place_of_a_lost_one",
    ),
    Fault(
        "A link is cut for two seconds",
        "the run waits, and loses no step",
        SAME,
        f"{HOSTS}::test_a_link_that_is_cut_for_less_than_a_hang",
    ),
    Fault(
        "A link is cut until the run hangs",
        "all ranks end, and meet again when the link is healed",
        SAME,
        f"{HOSTS}::test_a_link_that_is_cut_until_the_run_hangs",
    ),
    Fault(
        "The clock of a host is ten minutes or a day ahead, and a worker is killed",
        f"{RESTARTS}, and no clocks of two hosts are compared",
        SAME,
        f"{CLOCKS}::test_a_host_whose_clock_is_ahead",
    ),
    Fault(
        "The clock of a host jumps back by ten minutes or a day, and a worker is killed",
        f"{RESTARTS}, and no host counts as lost",
        SAME,
        f"{CLOCKS}::test_a_clock_that_jumps_back",
    ),
    Fault(
        "Gradients or losses are NaN",
        "all ranks skip the step, also after a resume",
        "same bits as the same run without a resume",
        "training/test_instability.py::test_a_run_skips_steps_on_all_ranks_and_resumes_to_the_same_bits",
    ),
    Fault(
        "A bit of a replica's weights flips",
        "the comparison of replicas ends all ranks, and torchrun restarts them",
        SAME,
        "training/test_replicas.py::test_a_flipped_bit_is_found_and_the_run_ends_with_the_same_loss",
    ),
    Fault(
        "A bit of a checkpoint flips",
        SKIPS,
        SAME,
        "training/test_resume.py::test_what_one_rank_cannot_read_all_ranks_skip",
    ),
    Fault(
        "A bit of a data shard flips",
        "the run ends before the step that needs it, and names the shard; it resumes when the shard is repaired",
        SAME,
        "training/test_damaged_data.py::test_a_run_ends_before_a_damaged_token_is_trained_on_and_resumes_when_it_is_repaired",
    ),
    Fault(
        "The disk is full for a while",
        "saves fail with a warning, and later ones succeed",
        SAME,
        f"{STORAGE}::test_a_disk_that_is_full_for_a_while",
    ),
    Fault(
        "S3 throttles requests, and drops connections",
        "requests are repeated",
        SAME,
        "training/test_failed_saves.py::test_a_run_ends_with_the_same_bits_though_s3_throttles_and_drops",
    ),
    Fault(
        "S3 throttles 20 %, 50 %, or all of the requests for a while",
        "requests are repeated, and no save fails",
        SAME,
        f"{STORAGE}::test_s3_that_throttles_for_a_while",
    ),
    Fault(
        "S3 does not answer for a while",
        "requests are repeated after half a minute",
        SAME,
        f"{STORAGE}::test_s3_that_hangs_for_a_while",
    ),
    Fault("S3 answers with wrong bytes", SKIPS, SAME, f"{STORAGE}::test_s3_that_answers_with_wrong_bytes"),
    Fault(
        "The memory of a node is lost with its processes",
        "the copies on other nodes are used",
        SAME,
        "training/test_memory.py::test_killed_processes_and_a_lost_node_cost_nothing_but_the_steps_since",
    ),
    Fault(
        "The processes and the memory of all nodes are lost, and one disk, with `checkpoint.local_disk`",
        "the run resumes from the other local disks",
        SAME,
        "training/test_memory.py::test_nodes_that_lose_their_processes_and_their_memory_resume_from_their_disks",
    ),
)


def results() -> dict[str, Any]:
    """Return the committed result of `python -m tests.faults --record`."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def table() -> str:
    """Return the faults as a Markdown table, with links from a page in `docs/`."""
    figures = results()["figures"]
    lines = [
        "| Fault | What the run does | Final loss | Runs | Seconds it stands | Test |",
        "|---|---|---|---|---|---|",
    ]
    for fault in FAULTS:
        file, _, _ = fault.test.partition("::")
        runs, seconds = _cells(figures.get(fault.name, {}))
        cells = (fault.name, fault.then, fault.loss, runs, seconds, f"[{file}](../tests/{file})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def notes() -> str:
    """Return the paragraphs below the table: how its figures were measured, and why cells are empty."""
    result = results()
    figures, versions = result["figures"], result["versions"]
    machine = f"{result['processors']} processors ({result['processor']})"
    # On one line, so that it can be copied.
    command = result["command"].replace(" ", _KEPT_SPACE)
    paragraphs = [
        'The column "Runs" has the number of runs that ended with this loss. The column "Seconds it stands" has the '
        "longest time between two new steps: the median of the runs, with the least and the most. Steps that a run "
        f"repeats are not new. `{command}` measured on {result['date'][:10]} on a machine with {machine}, "
        f"PyTorch {versions['torch']}, and Python {versions['python']}. The load average at the end was "
        f"{result['load_average']:.1f}."
    ]
    reasons: dict[str, list[str]] = {}
    for name, found in figures.items():
        if "skipped" in found:
            reasons.setdefault(f"Their tests were skipped: {found['skipped'].rstrip('.')}.", []).append(name)
        elif found["seconds"] is None:
            reasons.setdefault("The runs have no times of steps where the record reads them.", []).append(name)
    paragraphs += [f"No seconds of these faults. {reason} {'; '.join(names)}." for reason, names in reasons.items()]
    if left_out := len(FAULTS) - len(figures):
        paragraphs.append(f"The command left out {left_out} of the {len(FAULTS)} faults, whose cells are empty.")
    filled = (textwrap.fill(each, 132, break_long_words=False, break_on_hyphens=False) for each in paragraphs)
    return "\n\n".join(filled).replace(_KEPT_SPACE, " ")


def _cells(found: dict[str, Any]) -> tuple[str, str]:
    """Return the number of runs and the seconds of a fault as the table has them."""
    if "runs" not in found:
        return "", ""
    runs = f"{found['as_promised']} of {found['runs']}"
    if not (seconds := found["seconds"]):
        return runs, ""
    least, median, most = (f"{seconds[name]:.1f}" for name in ("least", "median", "most"))
    return runs, median if least == most else f"{median} ({least} to {most})"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BETWEEN.sub(lambda _: f"{table()}\n\n{notes()}\n\n", page), encoding="utf-8")
