"""Where the files are that Trainway uses beside its package: stacks, delivery, training job, emulator, and examples.

In a checkout they are in the repository's root. A wheel has the same files as data, in trainway/_checkout, so that
`stacks`, `training`, and `emulator` are no top-level names in the environment where Trainway is installed.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

_IN_A_WHEEL: Final = Path(__file__).resolve().parents[1] / "_checkout"

CHECKOUT: Final = _IN_A_WHEEL if _IN_A_WHEEL.is_dir() else _IN_A_WHEEL.parents[1]
"""The folder that has app.py, stacks/, delivery/, training/, emulator/, and examples/, for example."""


def make_importable() -> None:
    """Let this process import `training` and `emulator`, before packages of these names from elsewhere."""
    if (folder := str(CHECKOUT)) not in sys.path:
        sys.path.insert(0, folder)


def child_environment() -> dict[str, str]:
    """Return the variables with which a child process imports `training` and `emulator`.

    There are none in a checkout, because its installation puts the repository's root on the path. In a wheel, the
    PYTHONPATH of this process follows theirs.
    """
    if CHECKOUT != _IN_A_WHEEL:
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))}


def cdk_app() -> str:
    """Return the command that runs the CDK app with this Python, as the option `--app` of `cdk` takes it."""
    return shlex.join([sys.executable, str(CHECKOUT / "app.py")])
