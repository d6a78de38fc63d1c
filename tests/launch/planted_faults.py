"""Faults of a program that no other start helps, as a job file plants them, and the sentence that each ends with."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fault(NamedTuple):
    """Keys of the section `run`, and how the reason of the run begins."""

    run: dict[str, Any]
    why: str


# One line, and at most 256 characters, as SageMaker takes it.
_MEMORY = (
    "OutOfMemoryError = type('OutOfMemoryError', (RuntimeError,), {}); "
    "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11')"
)
_DISK = "import os; os.write(os.open('/dev/full', os.O_WRONLY), b'x')"
FAULTS = {
    "a command that no node has": Fault({"command": ["torchrunx", "train.py"]}, "torchrunx: there is no such command"),
    "a package that no key names": Fault(
        {"command": ["python3", "-c", "import trl_of_nobody.trainer"]}, "the Python package trl_of_nobody is absent"
    ),
    "an absent input": Fault(
        {"command": ["echo", "begun"], "inputs": {"corpus": "fsx:/corpus/absent"}}, "the input corpus is absent"
    ),
    "out of GPU memory": Fault({"command": ["python3", "-c", _MEMORY]}, "the GPU is out of memory"),
    "a full disk": Fault({"command": ["python3", "-c", _DISK]}, "no space is left on the disk"),
}
