"""Problems of a command and its inputs that are known before the program starts."""

import os
import re
import shutil
from pathlib import Path

from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, CannotStart


def check_inputs(environment: "dict[str, str]") -> None:
    """Raise CannotStart for an input that is a path, and does not exist."""
    for name, location in sorted(environment.items()):
        if name.startswith("TRAINWAY_INPUT_") and location.startswith("/") and not Path(location).exists():
            which = name[len("TRAINWAY_INPUT_") :].lower()
            raise CannotStart(f"the input {which} is absent: there is no {location} on the node")
    checkpoint = environment.get("TRAINWAY_CHECKPOINT", "")
    if checkpoint.startswith("/") and not Path(checkpoint).exists():
        why = f"there is no {checkpoint} on the node. Keep more checkpoints, or allow more evaluations at once"
        raise CannotStart(f"the checkpoint is absent: {why}")


def check_command(command: "list[str]", directory: Path, environment: "dict[str, str]") -> None:
    """Raise CannotStart for a program that does not exist, and for a Python file that does not."""
    program = command[0]
    if "/" in program:
        found = directory / program
        if not found.exists():
            raise CannotStart(f"{program}: there is no such file in {directory}")
        if not os.access(found, os.X_OK):
            raise CannotStart(f"{program}: the file in {directory} is not executable", NOT_EXECUTABLE)
    elif shutil.which(program, path=environment.get("PATH")) is None:
        raise CannotStart(f"{program}: there is no such command on PATH")
    if not directory.is_dir():
        raise CannotStart(f"{directory}: there is no such directory")
    if missing := missing_python_file(command, directory):
        raise CannotStart(f"{missing}: there is no such file in {directory}")


def missing_python_file(command: "list[str]", directory: Path) -> "str | None":
    """Return the Python file that a command of torchrun, HyperPod's agent, or Python names, if it does not exist."""
    if not re.fullmatch(r"torchrun|hyperpodrun|python[0-9.]*", Path(command[0]).name):
        return None
    for word in command[1:]:
        if word in ("-m", "-c", "--module", "--no-python"):
            return None
        if word.endswith(".py"):
            return None if (directory / word).exists() else word
    return None
