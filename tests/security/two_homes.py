"""Two homes on which commands run in this process: that of the member who launched a run, and that of a colleague.

The member's machine has the commands of Slurm. The colleague's has sessions of Systems Manager. No program is started:
`Programs` takes the place of subprocess.Popen and of os.exec*, keeps what each would have read, and answers as a
cluster does whose job runs or has failed. moto answers the calls of AWS, which are kept in the same list.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
import jinja2
import pytest
import typer
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from trainway import cli
from trainway.cli import narrowed
from trainway.launch.platform import hand_off
from trainway.launch.registry.connections import ConnectedPlatform
from trainway.launch.registry.record import RunRecord
from trainway.launch.runs.run_directory import make_run_directory, write_launch
from trainway.launch.slurm import session
from trainway.report import page

JOB_NUMBER = "17"
LOGIN = "ada"
_ENCODED = re.compile(r"base64 -d <<<([A-Za-z0-9+/=]+)")


@dataclass
class Programs:
    """Records of started programs and AWS calls, one text each. `has_ended` is the state of every job."""

    started: list[str] = field(default_factory=list)
    has_ended: bool = False
    training_jobs: set[str] = field(default_factory=set)
    """Training jobs that a resume has created. Every other training job is one of a first launch."""
    context: str = ""
    cluster: str = ""

    def answer(self, words: Sequence[str], read: str) -> str:
        """Keep a command with what it read from standard input, and return what it prints."""
        if words[0] == "aws":
            wrapper = _decoded(json.loads(words[-1])["command"][0])
            line = _decoded(wrapper)
            # What travels in base64 is compared as it is.
            self.started.append("\0".join((*words[:-1], _ENCODED.sub("LINE", wrapper), _without_job(line))))
            said = base64.b64encode(f"trainway-begins\n{self._slurm(line)}".encode()).decode()
            return f"trainway-answer 0 :{said} :\n"
        self.started.append("\0".join((*words, _without_job(read))))
        if words[0] == "bash":
            return self._slurm(read)
        return self._kubectl(words) if words[0] == "kubectl" else ""

    def _slurm(self, line: str) -> str:
        if "sbatch --parsable" in line:
            return f"{JOB_NUMBER}\n"
        if "ask()" in line:
            state = "FAILED|NonZeroExitCode|" if self.has_ended else "RUNNING|None|node-1"
            return f"{JOB_NUMBER}|{state}\n\n\n"
        if "scontrol --oneliner --detail show node" in line:
            return "---\n---\n"
        return "-- trainway --\n" * 3 if "-- trainway --" in line else ""

    def _kubectl(self, words: Sequence[str]) -> str:
        if "config" in words:
            context = {"name": self.context, "context": {"cluster": self.cluster}}
            return json.dumps({"contexts": [context], "current-context": self.context})
        if "logs" in words:
            return "2026-11-29T10:00:00Z told\n"
        if "--output=json" not in words or "get" not in words:
            return ""
        asked = words[words.index("get") + 1]
        if asked == "pods":
            pod = {"metadata": {"name": "pod-0"}, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}}
            return json.dumps({"items": [] if self.has_ended else [pod]})
        if "/" not in asked:
            return json.dumps({"items": []})
        conditions = [{"type": "Failed", "status": "True"}] if self.has_ended else []
        metadata = {"name": asked.partition("/")[2], "uid": "0"}
        job = {"apiVersion": "v1", "kind": "Job", "metadata": metadata, "status": {"conditions": conditions}}
        return json.dumps(job)


def _decoded(text: str) -> str:
    found = _ENCODED.search(text)
    assert found is not None, text
    return base64.b64decode(found[1]).decode()


def _without_job(text: str) -> str:
    """Return a command without the submitted script or documents. The author of a job may choose their content."""
    if "apiVersion:" in text or text.lstrip().startswith("{"):
        return "DOCUMENTS"
    submission = re.search(r"sbatch --parsable .*<<'(\w+)'\n", text)
    if submission is None:
        assert "sbatch --parsable" not in text
        return text
    script, end = text[submission.end() :], submission[1]
    return f"{text[: submission.end()]}SCRIPT{script[script.find(f'{chr(10)}{end}') + 1 + len(end) :]}"


class _Process:
    """Replacement of subprocess.Popen that starts no program."""

    programs: Programs

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self.args, self.returncode, self.pid = command, 0, os.getpid()
        words = [os.fspath(each) for each in ([command] if isinstance(command, str) else command)]
        assert not options.get("shell") and isinstance(command, (list, tuple)), command
        is_text = bool(options.get("text") or options.get("errors") or options.get("encoding"))
        self._answer = lambda read: self._as(self.programs.answer(words, read), is_text)
        self._has_output = options.get("stdout") == subprocess.PIPE
        self.stdin = self.stderr = None
        self.stdout: Any = None
        out = options.get("stdout")
        if isinstance(out, int) and out >= 0:
            # The terminal of a session, which its reader closes.
            os.write(out, self.programs.answer(words, "").encode())
        elif options.get("stdin") != subprocess.PIPE and self._has_output:
            self.stdout = (io.StringIO if is_text else io.BytesIO)(self._answer(""))

    @staticmethod
    def _as(text: str, is_text: bool) -> Any:
        return text if is_text else text.encode()

    def __class_getitem__(cls, _: Any) -> type[_Process]:
        return cls

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        del timeout
        read = input.decode() if isinstance(input, bytes) else input or ""
        said = self.stdout.read() if self.stdout else self._answer(read)
        return said, said[:0]

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        return 0

    poll = wait

    def kill(self) -> None:
        """Do nothing: the process has ended."""

    terminate = kill

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        del kind, error, trace


@dataclass(frozen=True)
class Home:
    """A home directory, the working directory of its owner, and the directory for PATH."""

    home: Path
    path: Path

    @property
    def work(self) -> Path:
        """The directory in which the commands run."""
        return self.home / "work"

    def forget_runs(self) -> None:
        """Delete the directories of runs."""
        shutil.rmtree(self.work / "runs", ignore_errors=True)

    def keep(self, record: RunRecord, launch: dict[str, Any]) -> None:
        """Write the directory of a run as its launch has left it."""
        run = self.work / "runs" / record.run
        files = dict(record.files)
        make_run_directory(files.pop("job.yaml"), run, files)
        write_launch(run, launch)


def make_homes(directory: Path) -> tuple[Home, Home]:
    """Return the home of the member who launched, with Slurm's commands in PATH, and the home of a colleague."""
    found = []
    for name, programs in (("launcher", ("sbatch",)), ("colleague", ("aws", "session-manager-plugin"))):
        home, path = directory / name, directory / "bin" / name
        (home / "work").mkdir(parents=True)
        path.mkdir(parents=True)
        for program in programs:
            (path / program).write_text("#!/bin/false\n")
            (path / program).chmod(0o755)
        found.append(Home(home, path))
    return found[0], found[1]


def _answered(status: int) -> AWSResponse:
    return AWSResponse("", status, HTTPHeaders(), None)


@functools.cache
def _command(name: str) -> Any:
    """Return a command from a cache, because typer creates every command at each call of the app."""
    return typer.main.get_command(narrowed([name]))


@contextlib.contextmanager
def recording(programs: Programs, directory: Path) -> Iterator[None]:
    """Replace the functions with which this process starts programs, and record the AWS calls."""

    def refuse(*words: Any, **_: Any) -> None:
        raise AssertionError(f"another door is used: {words!r}")

    def keep_call(params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        # A body, and what a training job runs, are the job.
        told = {key: value for key, value in params.items() if isinstance(value, str) and key != "Body"}
        words = (model.service_model.service_name, context["client_region"], model.name, json.dumps(told))
        programs.started.append("\0".join(words))

    def answer_call(model: Any, params: Any, **_: Any) -> tuple[Any, Any] | None:
        # moto has done each training job at once.
        if model.service_model.service_name != "sagemaker" or "TrainingJob" not in model.name:
            return None
        if model.name == "CreateTrainingJob":
            programs.training_jobs.add(json.loads(params["body"])["TrainingJobName"])
        if model.name != "DescribeTrainingJob":
            return _answered(200), {"TrainingJobArn": "arn"}
        name = json.loads(params["body"])["TrainingJobName"]
        if "-start-" in name and name not in programs.training_jobs:
            error = {"Code": "ValidationException", "Message": "Requested resource not found."}
            return _answered(400), {"Error": error}
        status = ("Failed", "Failed") if programs.has_ended else ("InProgress", "Training")
        told = {"TrainingJobName": name, "TrainingJobStatus": status[0], "SecondaryStatus": status[1]}
        return _answered(200), told

    templates, compiled = jinja2.Environment.compile, dict[str, Any]()

    def compile_once(environment: jinja2.Environment, source: str, *names: Any) -> Any:
        if source not in compiled:
            compiled[source] = templates(environment, source, *names)
        return compiled[source]

    asked = hand_off._hand_off_parameter
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Process, "programs", programs, raising=False)
        patch.setattr(subprocess, "Popen", _Process)
        for name in (
            "system",
            "fork",
            "forkpty",
            "posix_spawn",
            "posix_spawnp",
            "execv",
            "execve",
            "execvp",
            "execvpe",
        ):
            patch.setattr(os, name, refuse)
        patch.setattr(cli, "end_on_signals", lambda: None)
        patch.setattr(tempfile, "tempdir", str(directory))
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        boto3.setup_default_session()
        events: Any = boto3._get_default_session().events
        events.register("provide-client-params.*.*", keep_call)
        events.register("before-call.sagemaker.*", answer_call)
        # A client reads its service's model, for longer than most commands take.
        patch.setattr(boto3, "client", functools.cache(boto3.client))
        read = functools.cache(lambda name, region: asked(ConnectedPlatform(name, region)))
        patch.setattr(hand_off, "_hand_off_parameter", lambda platform: read(platform.name, platform.region))
        patch.setattr(cli, "narrowed", lambda words: _command(words[0]))
        # The drawings of a report show numbers alone.
        patch.setattr(page, "drawings", lambda _: {"charts": None, "shares": []})
        patch.setattr(jinja2.Environment, "compile", compile_once)
        # A session carries fewer characters than a script has.
        patch.setattr(session, "_MOST_CHARACTERS", 10**7)
        patch.setattr(session, "_node", lambda cluster, region, _name: ("login", f"i-{cluster}-{region}"))
        yield


@dataclass(frozen=True)
class Said:
    """The output of a command, its exit status, and the unexpected exception that ended it, or None."""

    status: int
    out: str
    errors: str
    fault: BaseException | None

    @property
    def text(self) -> str:
        """Standard output and standard error."""
        return self.out + self.errors


def run_at(home: Home, *words: str) -> Said:
    """Run `trainway WORDS` in the directory of a home, in this process."""
    outputs = [
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors) for errors in ("strict", "backslashreplace")
    ]
    status, fault = 0, None
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HOME": str(home.home), "PATH": str(home.path), "LOGNAME": LOGIN}.items():
            patch.setenv(name, value)
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        patch.chdir(home.work)
        patch.setattr(sys, "argv", ["trainway", *words])
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setattr(sys, "stdout", outputs[0])
        patch.setattr(sys, "stderr", outputs[1])
        try:
            cli.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            status, fault = 1, error
        for each in outputs:
            each.flush()
    out, errors = (each.buffer.getvalue().decode() for each in outputs)
    return Said(status, out, errors, fault)
