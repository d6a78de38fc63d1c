"""The lines of all pods of a run, as they come."""

from __future__ import annotations

import heapq
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from trainway.launch.kubernetes.job_state import has_begun, node_index, restarts
from trainway.launch.kubernetes.kubectl import at
from trainway.launch.target.protocol import Handle
from trainway.launch.target.wanted_lines import WantedLines

Pods = Sequence[Mapping[str, Any]]

# How the launcher of the ranks marks a line of a rank of its node; its own lines have no mark.
_OF_RANK = re.compile(r"^\[default(\d+)\]:(.*)$")
# The container of KubeRay that submits a job, in the pod of the head: utils/constant.go of KubeRay 1.7.0.
_SUBMITTER = "ray-job-submitter"
SECONDS_BETWEEN_LOOKS = 2.0


def lines_so_far(handle: Handle, pods: Pods, wanted: WantedLines) -> Iterator[str]:
    """Yield the lines of all pods so far, in the order of their times, which the nodes recorded."""
    with ExitStack() as stack:
        of_pods = []
        for pod in sorted(filter(has_begun, pods), key=node_index):
            process = stack.enter_context(_reading(handle, pod, wanted, "--timestamps"))
            assert process.stdout is not None  # it was asked for
            of_pods.append(_timed(node_index(pod), process.stdout))
        for _, node, line in heapq.merge(*of_pods, key=lambda each: each[0]):
            yield _marked(node, line)


def lines_as_they_come(
    handle: Handle, pods: Callable[[], Pods], ended: Callable[[], bool], wanted: WantedLines
) -> Iterator[str]:
    """Yield the log lines of all pods and of the pods that replace them, as they are written, until `ended`."""
    arrived: queue.Queue[str] = queue.Queue()
    followed: set[tuple[str, int]] = set()
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    try:
        while True:
            # Asked before the pods are listed, so that what they write last is read as well.
            is_over = ended()
            for pod in filter(has_begun, pods()):
                if (start := (pod["metadata"]["uid"], restarts(pod))) not in followed:
                    followed.add(start)
                    processes.append(_reading(handle, pod, wanted, "--follow"))
                    reader = threading.Thread(target=_pass_on, args=(processes[-1], node_index(pod), arrived))
                    reader.start()
                    readers.append(reader)
            yield from _arriving(arrived, SECONDS_BETWEEN_LOOKS)
            if is_over and not any(reader.is_alive() for reader in readers):
                while not arrived.empty():
                    yield arrived.get()
                return
    finally:
        for process in processes:
            process.terminate()
        for reader in readers:
            reader.join()


def _timed(node: int, lines: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the time, the node, and the text of each line. The times are of one length, so that they have an order.

    https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/kuberuntime/logs/logs.go (read 2026-11-24)
    """
    for line in lines:
        moment, _, text = line.partition(" ")
        whole, _, fraction = moment.removesuffix("Z").partition(".")
        yield f"{whole}.{fraction:0<9}", node, text


def _reading(handle: Handle, pod: Mapping[str, Any], wanted: WantedLines, how: str) -> subprocess.Popen[str]:
    # The driver of a RayJob prints where the job is submitted.
    names = [each["name"] for each in pod["spec"].get("containers", ())]
    of = (f"--container={_SUBMITTER}",) if _SUBMITTER in names else ()
    since = () if wanted.since_seconds is None else (f"--since={wanted.since_seconds:g}s",)
    tail = () if wanted.tail is None else (f"--tail={wanted.tail}",)
    command = ("kubectl", *at(handle), "logs", pod["metadata"]["name"], *of, *since, *tail, how)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")


def _pass_on(process: subprocess.Popen[str], node: int, arrived: queue.Queue[str]) -> None:
    assert process.stdout is not None  # it was asked for
    for line in process.stdout:
        arrived.put(_marked(node, line))
    process.wait()


def _arriving(arrived: queue.Queue[str], seconds: float) -> Iterator[str]:
    """Yield the lines that arrive within this time, each at once.

    Then the pods are listed again, also if lines still arrive: a pod that began later has lines, too.
    """
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            yield arrived.get(timeout=left)
        except queue.Empty:
            return


def _marked(node: int, line: str) -> str:
    """Return a line with its node and its rank on the node. A line of the launcher itself has no rank."""
    text = line.rstrip("\n")
    of_rank = _OF_RANK.match(text)
    return f"[{node} {of_rank[1]}] {of_rank[2].removeprefix(' ')}" if of_rank else f"[{node} -] {text}"
