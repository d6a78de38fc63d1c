"""The process of a program on a node, from its start to its end."""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

from trainway.launch.node.process_tree import (
    SECONDS_BETWEEN_LOOKS,
    adopt_orphans,
    begin,
    descendants,
    is_anything_left,
    kill_descendants,
    reaped,
    still_running,
)
from trainway.launch.node.program_output import ProgramOutput, pass_on
from trainway.launch.node.program_stacks import write_stacks
from trainway.launch.node.program_stop import ProgramStop
from trainway.launch.node.silence import Silence
from trainway.launch.node.stop_request import StopRequest

SECONDS_FOR_STACKS = 10.0
# What a rank has printed passes through its launcher.
_SECONDS_FOR_THE_LAST_LINES = 2.0


def run_program(
    asked: argparse.Namespace,
    environment: "dict[str, str]",
    directory: Path,
    stop: StopRequest,
    output: ProgramOutput,
    silence: Silence,
) -> "tuple[int, list[str], str | None]":
    """Run the program to its end.

    Return its exit status, the processes that were killed after the grace, and why it was ended because it hangs.
    """
    adopt_orphans()
    if Path(asked.command[0]).name == "torchrun" and not asked.per_gpu:
        # Libraries that find Slurm's variables start their ranks by them, and torchrun has started the ranks already.
        environment = {name: value for name, value in environment.items() if not name.startswith("SLURM_")}
    process = subprocess.Popen(
        asked.command,
        cwd=str(directory),
        env={**environment, "PWD": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=begin,
    )
    logs = Path(environment["PET_LOG_DIR"]) / "program" / "attempt_0" / "0"
    readers = [
        threading.Thread(target=pass_on, args=(source, sink, logs / f"{name}.log", output, silence.hear), daemon=True)
        for source, sink, name in (
            (process.stdout, sys.stdout.buffer, "stdout"),
            (process.stderr, sys.stderr.buffer, "stderr"),
        )
    ]
    for reader in readers:
        reader.start()
    ended = _wait(process.pid, asked, stop, output, silence)
    kill_descendants()
    for reader in readers:
        reader.join(timeout=5)
    output.metrics.close()
    return ended


def _wait(
    pid: int, asked: argparse.Namespace, stop: StopRequest, output: ProgramOutput, silence: Silence
) -> "tuple[int, list[str], str | None]":
    """Wait for the end of a program whose first process is `pid`. Return what `run_program` does.

    Pass on a request to stop, write the stacks of a program that hangs, and kill what is left after the grace.
    """
    killed: list[str] = []
    hangs: str | None = None
    writing: set[int] = set()
    end = None
    told = ProgramStop(pid, asked.command, stop.signal, asked.grace, with_children=asked.script)
    status = None
    while True:
        status = reaped(pid) if status is None else status
        # A signal to all processes may have ended the program before this one looks.
        if stop.look():
            told.tell()
        if status is not None:
            # A launcher that the signal ends leaves ranks behind, which save.
            if stop.asked_at is None or not is_anything_left():
                break
            told.tell_survivors()
        if stop.asked_at is not None and end is None:
            end = time.monotonic() + asked.grace
            silence.close()
        elif end is None and (hangs := silence.look()):
            print(f"trainway: {hangs}", file=sys.stderr, flush=True)
            silence.close()
            writing, end = write_stacks(pid), time.monotonic() + SECONDS_FOR_STACKS
        elif writing and not writing & descendants():
            writing, end = set(), time.monotonic() + _SECONDS_FOR_THE_LAST_LINES
        if end is not None and time.monotonic() >= end:
            killed = killed or still_running()
            kill_descendants()
            if status is not None:
                # What is left cannot be killed.
                break
        output.metrics.look()
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return (128 - status if status < 0 else status), killed, hangs
