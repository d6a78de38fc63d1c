"""A seam: an artifact that the project renders, the reader that judges it, and errors that the reader must find.

Each `tests/seams/test_*.py` defines `SEAMS`. The page `docs/seams.md` lists all of them, and `test_planted.py` runs the
planted errors of all of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType

SEAMS_FOLDER = Path(__file__).parent
# Problems that a reader reports, in its own words. Takes an empty directory that it may write to.
Reading = Callable[[Path], Sequence[str]]


@dataclass(frozen=True)
class Planted:
    """An error planted in a whole artifact.

    `error` names the mistake, for example "the image's registry is left out". `sound` reads the artifact as the project
    renders it. `broken` reads the same artifact with the error in it.
    """

    error: str
    sound: Reading
    broken: Reading


def identity(reading: Callable[..., object]) -> Hashable:
    """Return a key that two readings share if they run the same code on the same values."""
    if isinstance(reading, partial):
        values = (*reading.args, *(value for pair in sorted(reading.keywords.items()) for value in pair))
        return identity(reading.func), tuple(map(_value_identity, values))
    if not isinstance(reading, FunctionType):
        return id(reading)
    cells = tuple(cell.cell_contents for cell in reading.__closure__ or ())
    return reading.__code__, tuple(map(_value_identity, (*cells, *(reading.__defaults__ or ()))))


def _value_identity(value: object) -> Hashable:
    if isinstance(value, partial | FunctionType):
        return identity(value)
    # Two objects of other types may differ in what the readings read.
    return (type(value), value) if isinstance(value, str | int | None) else id(value)


@dataclass(frozen=True)
class Seam:
    """An artifact and its reader.

    `artifact` names what is rendered, `rendered_by` the file or folder of the project that renders it, and `reader` the
    strongest reader that runs in the tests. `instead` is empty if the reader is the program that reads the artifact in
    production. Otherwise `instead` says why that program does not run in the tests. Where `exhaustive` is set, as for
    a reader on nodes that have to be provisioned, only `make test-all` plants errors.
    """

    artifact: str
    rendered_by: str
    reader: str
    planted: tuple[Planted, ...]
    instead: str = ""
    exhaustive: bool = False


def all_seams() -> dict[str, tuple[Seam, ...]]:
    """Return the seams of every test file in this folder, by the name of the file."""
    modules = {file.name: importlib.import_module(f"tests.seams.{file.stem}") for file in _test_files()}
    return {name: module.SEAMS for name, module in modules.items() if hasattr(module, "SEAMS")}


def _test_files() -> list[Path]:
    return sorted(SEAMS_FOLDER.glob("test_*.py"))
