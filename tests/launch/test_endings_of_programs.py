"""A program that another attempt cannot help is started once, and every other one is started again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.launch.test_failure_causes import ABSENT, DISK, DURING, MEMORY, NCCL
from tests.launch.test_start_program import Started, nothing_is_left
from tests.representatives import with_representatives
from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND
from trainway.launch.node.node_of_run import LAUNCH
from trainway.launch.program.program import STARTER

__all__ = ["nothing_is_left"]

MOST = 4
ONCE, TWICE, ALWAYS = 1, 2, MOST
TRACEBACK = "Traceback (most recent call last):\n"
STEP = "step=1 loss=2\n"


class Ending(NamedTuple):
    """What a program prints before it ends with a status, how often it is started, and what the reason says."""

    text: str
    starts: int
    why: str
    status: int = 1


ENDINGS = {
    # Nothing changes before a person changes the job, its code, or its image.
    "an option that it does not have": Ending("train.py: error: unrecognized arguments: --lr 1", ONCE, "--lr 1", 2),
    "an option that it lacks": Ending(
        "t.py: error: the following arguments are required: --data", ONCE, "required: --data", 2
    ),
    "a wrong value": Ending("t.py: error: argument --lr: invalid float value: 'x'", ONCE, "argument --lr", 2),
    "an option unknown to Click": Ending("Error: No such option '--lr'.", ONCE, "No such option", 2),
    "an option that Click lacks": Ending("Error: Missing option '--data'.", ONCE, "Missing option", 2),
    "an option unknown to Typer": Ending(
        "╭─ Error ─╮\n│ No such option: --lr      │\n╰─╯", ONCE, "No such option: --lr", 2
    ),
    "an option unknown to Abseil": Ending(
        "FATAL Flags parsing error: Unknown command line flag 'lr'", ONCE, "command line flag 'lr'"
    ),
    "an option unknown to transformers": Ending(
        f"{TRACEBACK}ValueError: Some specified arguments are not used by the HfArgumentParser: ['--lr']",
        ONCE,
        "['--lr']",
    ),
    "an absent package": Ending(ABSENT, ONCE, "flash_attn is absent"),
    "an absent package after a step": Ending(f"{STEP}{ABSENT}", ONCE, "flash_attn is absent"),
    "a command that is absent": Ending("bash: line 1: trian: command not found", ONCE, "exit status 127", NOT_FOUND),
    "a file that is no program": Ending("sh: 1: ./run: Permission denied", ONCE, "exit status 126", NOT_EXECUTABLE),
    "a full disk": Ending(DISK, ONCE, "no space is left on the disk for /fsx/x"),
    "a quota that is used up": Ending("OSError: [Errno 122] Disk quota exceeded: '/fsx/y'", ONCE, "for /fsx/y"),
    "GPU memory at once": Ending(MEMORY, ONCE, "the GPU is out of memory"),
    "a mistake of syntax": Ending('  File "t.py", line 1\nSyntaxError: invalid syntax', ONCE, "mistake: SyntaxError"),
    "a wrong indentation": Ending("IndentationError: unexpected indent", ONCE, "IndentationError"),
    "a name that is not there": Ending(f"{TRACEBACK}NameError: name 'los' is not defined", ONCE, "name 'los'"),
    "a variable without a value": Ending(
        f"{TRACEBACK}UnboundLocalError: cannot access local variable 'x'", ONCE, "local variable 'x'"
    ),
    "an argument that a function lacks": Ending(
        f"{TRACEBACK}TypeError: f() got an unexpected keyword argument 'lr'", ONCE, "keyword argument 'lr'"
    ),
    "a missing argument": Ending(
        f"{TRACEBACK}TypeError: f() missing 1 required positional argument: 'x'", ONCE, "missing 1 required"
    ),
    "a name that a package lacks": Ending(
        f"{TRACEBACK}ImportError: cannot import name 'x' from 'y'", ONCE, "import name"
    ),
    "an attribute that a module lacks": Ending(
        f"{TRACEBACK}AttributeError: module 'torch' has no attribute 'flot'", ONCE, "attribute 'flot'"
    ),
    # Another attempt could help, and two without a step show that it does not.
    "a plain failure": Ending("", TWICE, "exit status 3", 3),
    "another exception": Ending(f"{TRACEBACK}ValueError: bad label", TWICE, "exit status 1"),
    "NCCL": Ending(NCCL, TWICE, "exit status 1"),
    "NCCL after an optional package": Ending(f"{ABSENT}\n{NCCL}", TWICE, "exit status 1"),
    "a server that does not answer": Ending(f"{TRACEBACK}ConnectionError: hub", TWICE, "exit status 1"),
    "a mistake in the treatment of a failure": Ending(
        f"{TRACEBACK}ConnectionError: hub{DURING}NameError: name 'loger'", TWICE, "exit status 1"
    ),
    "a value that is None": Ending(
        f"{TRACEBACK}AttributeError: 'NoneType' object has no attribute 'shape'", TWICE, "exit status 1"
    ),
    "an address that is taken": Ending("OSError: [Errno 98] Address already in use", TWICE, "exit status 1"),
    "a program that is killed": Ending("", TWICE, "exit status 137", 137),
    "a program that crashes": Ending("Segmentation fault (core dumped)", TWICE, "exit status 139", 139),
    "a CUDA error": Ending(f"{TRACEBACK}RuntimeError: CUDA error: unspecified launch failure", TWICE, "exit status 1"),
    "an abort": Ending("terminate called after throwing an instance of 'c10::Error'", TWICE, "exit status 134", 134),
    # It was at work.
    "a failure after a step": Ending(STEP, ALWAYS, "exit status 1"),
    "NCCL after a step": Ending(f"{STEP}{NCCL}", ALWAYS, "exit status 1"),
    "a mistake of code after a step": Ending(f"{STEP}NameError: name 'x' is not defined", ALWAYS, "name 'x'"),
    "a program that is killed after a step": Ending(STEP, ALWAYS, "exit status 137", 137),
    "a crash after a step": Ending(f"{STEP}Fatal Python error: Aborted", ALWAYS, "exit status 134", 134),
    # It is done.
    "success": Ending(STEP, ONCE, "", 0),
    "success after an optional package": Ending(f"{ABSENT}\n{STEP}", ONCE, "", 0),
}


@pytest.mark.parametrize(
    "name", with_representatives(ENDINGS, ["a wrong value", "a name that is not there", "NCCL", "NCCL after a step"])
)
def test_a_program_is_started_as_often_as_it_helps(name: str, tmp_path: Path) -> None:
    ending = ENDINGS[name]
    (tmp_path / "text").write_text(f"{ending.text}\n")
    shutil.copytree(STARTER.parent, tmp_path / "node")
    (tmp_path / "node" / LAUNCH).write_text("one")
    program = ("sh", "-c", f"echo >>ran; cat text; exit {ending.status}")
    for _ in range(MOST):
        command = ("--metric=step=step=(\\d+)", "--", *program)
        status, said = Started(tmp_path, *command, starter=tmp_path / "node" / STARTER.name).ends()
        # An operator ends the run at the first, and starts it again after any other.
        if status in (0, NOT_FOUND, NOT_EXECUTABLE):
            break
    assert len((tmp_path / "ran").read_text()) == ending.starts
    assert ending.why in said and (status == 0) == (ending.status == 0), said
