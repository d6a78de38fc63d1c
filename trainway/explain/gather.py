"""Gather evidence from files: the directory of a run, or a directory of collected logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainway.explain.evidence import Evidence, Exit, JobEvent, Log, signal_status
from trainway.explain.hyperpod import hyperpod_evidence, is_hyperpod
from trainway.explain.kubernetes import kubernetes_evidence
from trainway.explain.sagemaker import sagemaker_evidence
from trainway.explain.shape import shaped
from trainway.explain.slurm import is_slurm, slurm_evidence
from trainway.explain.torchrun import exits_in
from trainway.spec.errors import usage_error

MOST_BYTES = 16 * 2**20
"""Maximum of all logs together, in bytes. Only the end of each is read: the cause of a failure is rarely far back."""
_LEAST_BYTES = 64 * 2**10
_TORCHRUN = re.compile(
    r"(?:^|/)(?:(?P<node>[\w.-]+)/)?[^/]+/attempt_(?P<attempt>\d+)/(?P<local>\d+)/(?:std\w+\.log|error\.json)$"
)
# trainway/launch/node/log_file.py
_LATER_FILE = re.compile(r"(?<=std(?:out|err))_\d{6}(?=\.log$)")
_START = re.compile(r"/start-(\d+)/")
_RANK_FILE = re.compile(r"(?:^|[/_.-])(?:global_)?rank[_-]?(?P<rank>\d+)(?=[_.\-/]|$)")
_NODE_FILE = re.compile(r"(?P<node>(?:ip-|i-|node|algo-|worker|host)[\w-]*\d)")
# The first byte of a pickle, as `_log` decodes it, and its protocol.
_PICKLE = ("\ufffd\x02", "\ufffd\x03", "\ufffd\x04", "\ufffd\x05")
_NO_NODE = frozenset({"logs", "log", ""})


def evidence_of_run(run: Path) -> Evidence:
    """Return the evidence of a run on this machine: the logs of its newest start, how it ended, and who stopped it.

    Raises UsageError if the directory is not that of a run.
    """
    if not (run / "launch.json").exists():
        raise usage_error(
            f"{run} cannot be explained", why="it has no launch.json, so no run was started there", fix="name a run"
        )
    launch: dict[str, Any] = json.loads((run / "launch.json").read_text(encoding="utf-8"))
    status = launch.get("exit_status")
    starts = sorted((run / "logs").glob("*/attempt_0"), key=lambda each: each.stat().st_mtime)
    files = [run / "logs" / "torchrun.log"]
    if starts:
        files += sorted(starts[-1].parent.rglob("std*.log"))
    # Where a section `run` started the program, each start has a directory (trainway/launch/node/node_of_run.py).
    files += _of_newest_start(sorted((run / "logs").glob("start-*/**/std*.log")))
    events: tuple[JobEvent, ...] = ()
    if stopped_by := launch.get("stopped_by"):
        events = (JobEvent("trainway", "Stopped", str(stopped_by), "the run"),)
    told = with_exits([_log(parts, run, room) for parts, room in _rooms([file for file in files if file.exists()])])
    ended = () if status in (None, 0) or told.exits else (Exit(signal_status(int(status)), "torchrun"),)
    return Evidence(told.logs, events, (*told.exits, *ended), None if status is None else status == 0)


def evidence_in(directory: Path) -> Evidence:
    """Return the evidence in the files below a directory, whatever program wrote them.

    A file is identified by its content: objects of `kubectl get -o json`, an answer of SageMaker, or the output of
    sacct or scontrol. Every other file is a log. If the lines of a log do not name rank and node, they come
    from its path. Raises UsageError if there is no file.
    """
    files = sorted(file for file in directory.rglob("*") if file.is_file()) if directory.is_dir() else []
    files = _of_newest_start(files)
    if not files:
        raise usage_error(
            f"{directory} cannot be explained", why="there are no files", fix="name a directory that has logs"
        )
    logs, evidence, objects, answers = [], Evidence(), [], []
    for parts, room in _rooms(files):
        log = _log(parts, directory, room)
        if log.text.startswith(_PICKLE):
            continue  # such as a file of NCCL's flight recorder
        document = _document(log.text) if log.text.lstrip()[:1] == "{" else None
        if isinstance(document, dict) and (stack := _of_error_file(document)):
            logs.append(replace(log, text=stack))
        elif isinstance(document, dict) and "TrainingJobName" in document:
            evidence += sagemaker_evidence(document)
        elif isinstance(document, dict) and is_hyperpod(document):
            answers.append(document)
        elif isinstance(document, dict) and "kind" in document:
            objects.append(document)
        elif is_slurm(log.text):
            evidence += slurm_evidence(log.text, log.name)
        else:
            logs.append(log)
    return evidence + hyperpod_evidence(answers) + kubernetes_evidence(objects) + with_exits(logs)


def with_exits(logs: Sequence[Log]) -> Evidence:
    """Return logs as evidence, with the exit statuses that torchrun reports in them."""
    return Evidence(tuple(logs), exits=tuple(exit_ for log in logs for exit_ in exits_in(log)))


def log_of_path(path: str, text: str) -> Log:
    """Return a log with node, rank, and attempt from its path, which is relative to the directory of all logs."""
    if found := _TORCHRUN.search(path):
        node = found["node"] if found["node"] not in _NO_NODE and not _START.search(f"/{found['node']}/") else None
        return Log(path, text, node=node, local_rank=int(found["local"]), attempt=int(found["attempt"]))
    rank, node_name = _RANK_FILE.search(path.rpartition(".")[0] or path), _NODE_FILE.search(path)
    return Log(path, text, node=node_name["node"] if node_name else None, rank=int(rank["rank"]) if rank else None)


def _of_newest_start(files: Sequence[Path]) -> list[Path]:
    """Return the files without the logs of a Slurm job's starts before its last, below start-<n>."""
    starts = {file: int(found[1]) for file in files if (found := _START.search(file.as_posix()))}
    newest = max(starts.values(), default=0)
    return [file for file in files if starts.get(file, newest) == newest]


def _rooms(files: Sequence[Path]) -> Iterator[tuple[list[Path], int]]:
    """Yield the files of each log in the order of their lines, with the number of bytes to read of the log."""
    logs = dict[Path, list[Path]]()
    for file in files:
        logs.setdefault(file.with_name(first_of_log(file.name)), []).append(file)
    room = max(_LEAST_BYTES, MOST_BYTES // max(1, len(logs)))
    return ((parts, room) for parts in logs.values())


def first_of_log(path: str) -> str:
    """Return the path of the first file of a log: the starter of a program begins others when one is full."""
    return _LATER_FILE.sub("", path)


def _log(parts: Sequence[Path], below: Path, room: int) -> Log:
    """Return the end of a log under the name of its last file."""
    text = b""
    for file in reversed(parts):
        if len(text) >= room:
            break
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - (room - len(text))))
            text = opened.read() + text
    said = text.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return log_of_path(parts[-1].relative_to(below).as_posix(), said)


def _of_error_file(document: Mapping[str, Any]) -> str | None:
    """Return the traceback of a file that torchrun's `record` writes (TORCHELASTIC_ERROR_FILE), or None.

    torch/distributed/elastic/multiprocessing/errors/error_handler.py of PyTorch 2.13 (read 2026-11-30)
    """
    told = shaped(document, {"message": {"extraInfo": {"py_callstack": str}}})
    stack: str | None = told.get("message", {}).get("extraInfo", {}).get("py_callstack")
    return stack


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
