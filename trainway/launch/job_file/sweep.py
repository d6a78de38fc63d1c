"""A job once for each point of a grid of its keys."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainway.launch.job_file.programs import program_of
from trainway.launch.program.program import Program
from trainway.spec import strict_yaml
from trainway.spec.errors import usage_error

# A slip of the keyboard in a range costs more than any sweep is worth.
MOST_JOBS = 256


@dataclass(frozen=True)
class Point:
    """One program of a sweep, and what its job file has of its own."""

    program: Program
    changes: Mapping[str, Any]


def sweep(text: str, axes: Sequence[str], until_step: int | None = None, directory: Path = Path()) -> list[Point]:
    """Return the jobs of a sweep. An axis is `key=value,value…`, for example `batch.global=256,512`.

    Each is called after the job with a number behind, and so has checkpoints of its own; where the file says where
    they go, that gets the number as well. Raises UsageError for an axis that cannot be read, a value that the job file
    does not take, or more jobs than MOST_JOBS.
    """
    document = strict_yaml.read(text).data
    values = dict(_axis(axis) for axis in axes)
    count = math.prod(len(each) for each in values.values())
    if count > MOST_JOBS:
        raise usage_error(
            f"a sweep of {' x '.join(str(len(each)) for each in values.values())} = {count} jobs",
            why=f"that is more than {MOST_JOBS}",
            fix="sweep fewer values, or one key after the other",
        )
    points = []
    for number, chosen in enumerate(itertools.product(*values.values())):
        changes = dict(zip(values, chosen, strict=True))
        suffix = f"-{number:0{len(str(count - 1))}d}"
        points.append(_point(document, changes, suffix, until_step, directory))
    return points


def array_axis(count: int) -> str:
    """Return the axis of `--array`: the key in which each of so many runs has its number."""
    return f"run.array_index={','.join(str(index) for index in range(count))}"


def _axis(axis: str) -> tuple[str, list[Any]]:
    key, equals, listed = axis.partition("=")
    values, faults = [], list[strict_yaml.YamlFault]()
    try:
        # As a flow sequence of YAML, so that a value is what it would be in the file, lists and mappings too.
        reading = strict_yaml.read(f"[{listed}]")
        values, faults = reading.data, reading.faults
    except strict_yaml.UnreadableError:
        pass
    if faults:
        raise usage_error(f"--sweep {axis} cannot be read", why=faults[0].reason, fix=faults[0].remedy)
    if not (key and equals and values):
        raise usage_error(
            f"--sweep {axis} cannot be read",
            why="it is not a key, `=` and values with commas between them",
            fix="for example --sweep optimizer.learning_rate=1e-4,3e-4",
        )
    if key == "name":
        raise usage_error(f"--sweep {axis}", why="each job gets a name of its own", fix="sweep another key")
    return key, values


def _point(
    document: Mapping[str, Any], changes: Mapping[str, Any], suffix: str, until_step: int | None, directory: Path
) -> Point:
    changed = copy.deepcopy(dict(document))
    for key, value in changes.items():
        _set(changed, key, value)
    changed["name"] = f"{changed.get('name', '')}{suffix}"
    checkpoint = changed.get("checkpoint")
    if isinstance(checkpoint, dict) and "location" in checkpoint:
        checkpoint["location"] = f"{checkpoint['location']}{suffix}"
    text = strict_yaml.dump(changed)
    try:
        program = program_of(changed, text, until_step, directory)
        if program.packages is not None:
            # All jobs of the sweep have the packages of the job file, and its lock.
            program = replace(program, packages=replace(program.packages, job=str(document["name"])))
        return Point(program, changes)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        remedy = first.get("ctx", {}).get("remedy", "change the sweep or the job file")
        shown = ", ".join(f"{name}={value}" for name, value in changes.items())
        raise usage_error(f"the job with {shown} is not a job", why=f"{key}: {first['msg']}", fix=remedy) from None


def _set(document: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        inner = document.setdefault(section, {})
        if not isinstance(inner, dict):
            raise usage_error(
                f"--sweep {key}", why=f"{section} of the job file is not a section", fix="name another key"
            )
        document = inner
    document[last] = value
