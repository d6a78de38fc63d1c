"""A `python3` for the delivery scripts that is a fork of a process which has imported PyYAML and more already.

The scripts start a few lines of Python up to ten times each, and the start of Python and its imports take most of the
CPU time of their tests. `client` returns a program for PATH in place of `python3`. This file as a program is the
server. For each client it forks, and the fork runs the client's arguments with the client's files, directory, and
environment, as Python would. What it cannot run in the same way, it starts Python for. test_python_forks.py compares
the two, and tests/seams/test_stage_permissions.py runs every stage with Python itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import secrets
import select
import signal
import socket
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import NoReturn

# Of Bash, which starts in a sixth of the time of Python. It prints nothing and waits for the exit status. While it
# writes to the server, its output is the server, and so it makes a second descriptor of its output for the server.
CLIENT = """#!/bin/bash
exec {{output}}>&1 {{server}}<>/dev/tcp/127.0.0.1/{port}
printf '%s %s %s\\n' {token} "$$" "$output" >&"$server"
read -r -u "$server" status
exit "${{status:-1}}"
"""


@cache
def client() -> str:
    """Return the text of the program."""
    # Other users of the machine do not know the token, which no command line has.
    token, listener = secrets.token_hex(), socket.create_server(("127.0.0.1", 0), backlog=64)
    with listener:
        server = _server(listener.fileno())
        assert server.stdin
        server.stdin.write(f"{token}\n".encode())
        server.stdin.flush()
        return CLIENT.format(port=listener.getsockname()[1], token=token)


@cache
def _server(listener: int) -> subprocess.Popen[bytes]:
    """Start the server, which ends when its input does, and so with this process."""
    # The environment of the stages, which decides how Python reads and writes text.
    return subprocess.Popen(
        [sys.executable, __file__, str(listener)],
        pass_fds=[listener],
        stdin=subprocess.PIPE,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
    )


def serve(listener: socket.socket) -> None:
    """Fork for each client, until the input of this process ends."""
    # What the scripts import, but no module of the repository: each test has a copy of its own.
    import dataclasses
    import hashlib
    import json
    import re
    import tomllib
    import urllib.parse

    import yaml

    assert all((dataclasses, hashlib, json, re, tomllib, urllib.parse, yaml))
    # A fork collects no garbage of its own, and would search all of this and copy its memory.
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    token = sys.stdin.readline().strip()
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                _answer(connection, token)


def _reap(*_: object) -> None:
    """Wait for the forks that have ended, so that their CPU time counts (tests/durations.py)."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(connection: socket.socket, token: str) -> NoReturn:
    """Run what a client was started with, tell the client the exit status, and end this process."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        said, pid, output = connection.makefile().readline().split()
        if said == token:
            words = _become(Path("/proc", pid), output)
            is_known = words and (not words[0].startswith("-") or words[0] in ("-c", "-m"))
            if is_known and not any(name.startswith("PYTHON") for name in os.environ):
                _run(words)
                status = 0
            else:
                status = subprocess.run([sys.executable, *words], check=False).returncode & 255
    except SystemExit as end:
        # Python exits in the same way.
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code & 255 if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(f"{status}\n".encode())
        os._exit(0)


def _become(process: Path, output: str) -> list[str]:
    """Take over the files, the directory, and the environment of a process, and return its arguments.

    `output` is the number of the descriptor that the process has for its output.
    """
    os.chdir((process / "cwd").readlink())
    for number, there in enumerate(("0", output, "2")):
        _open_as(process, there, number)
    sys.stdin = open(0, errors="surrogateescape", closefd=False)  # noqa: SIM115 # open until the process ends
    sys.stdout = open(1, "w", errors="surrogateescape", closefd=False)  # noqa: SIM115 # as above
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115 # as above
    os.environb.clear()
    for variable in (process / "environ").read_bytes().split(b"\0")[:-1]:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    # Before the arguments, the command line has Bash and the script.
    return [os.fsdecode(word) for word in (process / "cmdline").read_bytes().split(b"\0")[2:-1]]


def _open_as(process: Path, there: str, number: int) -> None:
    """Open the file of a descriptor of another process at its position, as a descriptor of this process."""
    facts = dict(line.split(":", 1) for line in (process / "fdinfo" / there).read_text().splitlines())
    kept = os.O_ACCMODE | os.O_APPEND
    opened = os.open(process / "fd" / there, int(facts["flags"], 8) & kept)
    # A pipe and a terminal have no position.
    with contextlib.suppress(OSError):
        os.lseek(opened, int(facts["pos"]), os.SEEK_SET)
    os.dup2(opened, number)


def _run(words: list[str]) -> None:
    """Run a file, a module, or a command, as `python3` does with these words."""
    first, *rest = words
    others = sys.path[1:]
    if first == "-c":
        sys.argv, sys.path = ["-c", *rest[1:]], ["", *others]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        sys.argv, sys.path = ["-m", *rest[1:]], [str(Path.cwd()), *others]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path = [first, *rest], [str(Path(first).resolve().parent), *others]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
