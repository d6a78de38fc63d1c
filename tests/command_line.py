"""Run the command line in a fork of the test process, which has already imported every module.

`python -m trainway.cli` imports modules and reads botocore's models for more CPU time than most commands take. A test
starts it if it sends signals, or if commands run at the same time.

As a program, with a JSON list of commands, this module runs each command in turn, and prints the exit status, the
output, and the errors of each. So another user of the operating system imports once, too.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

import boto3

from trainway import cli

# The limit only ends a hang.
LIMIT_SECONDS = 1800


Completed = subprocess.CompletedProcess[str]


def run_trainway(*words: str, directory: Path, environment: Mapping[str, str] | None = None) -> Completed:
    """Run `trainway WORDS` in a directory, without input, and return its exit status and its output.

    `environment` replaces that of the tests. A signal that ends the command is a negative exit status.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        if (child := os.fork()) == 0:
            _run(words, os.environ.copy() if environment is None else environment, directory, out, errors)
        _, status = os.waitpid(child, 0)
        texts = []
        for each in (out, errors):
            each.seek(0)
            texts.append(each.read().decode())
    return subprocess.CompletedProcess(list(words), os.waitstatus_to_exitcode(status), *texts)


def _run(
    words: Sequence[str], environment: Mapping[str, str], directory: Path, out: IO[bytes], errors: IO[bytes]
) -> NoReturn:
    """Run the command in the forked process, and exit without the exit handlers of pytest."""
    status = 1
    faulthandler.enable(errors)
    try:
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.alarm(LIMIT_SECONDS)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        # Replace the objects that pytest has assigned.
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(each, mode) for each, mode in ((0, "r"), (1, "w"), (2, "w")))
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        boto3.DEFAULT_SESSION = None
        sys.argv = ["trainway", *words]
        cli.main()
        status = 0
    except SystemExit as end:
        # Python exits in the same way.
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    ended = [run_trainway(*words, directory=Path.cwd()) for words in json.loads(sys.argv[1])]
    print(json.dumps([[each.returncode, each.stdout, each.stderr] for each in ended]))
