"""A Dockerfile as the rules read it: its last stage, with variables replaced by the values that the file gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trainway.image_doctor.subject import Base, BuildStep, Subject, Variable
from trainway.spec.dockerfile import Instruction, Stage, stages_of
from trainway.spec.errors import usage_error

_VARIABLE: Final = re.compile(r"\$(?:\{(?P<name>\w+)(?P<rest>:[-+][^}]*)?\}|(?P<plain>\w+))")


@dataclass
class _Reading:
    """What has been read of the stages: steps and bases of all, and the variables of each by its name."""

    file: str
    before: Mapping[str, str]
    steps: list[BuildStep] = field(default_factory=list)
    bases: list[Base] = field(default_factory=list)
    variables: dict[str, dict[str, Variable]] = field(default_factory=dict)
    base_of: dict[str, Base] = field(default_factory=dict)


def dockerfile_subject(file: str, text: str) -> Subject:
    """Return the image that a Dockerfile builds, as far as the file states it. Raises UsageError without a FROM."""
    before, stages = stages_of(text)
    if not stages:
        fix = "name a Dockerfile, an image, an OCI layout, or an archive of an image"
        raise usage_error(f"{file} is no Dockerfile", why="it has no FROM", fix=fix)
    reading = _Reading(file, _arguments(before, {}, {}))
    variables = dict[str, Variable]()
    for number, stage in enumerate(stages):
        variables = _read_stage(reading, stage, stage.name or str(number))
    last = reading.base_of[stages[-1].name or str(len(stages) - 1)]
    others = [base for base in dict.fromkeys(reading.bases) if base != last]
    return Subject(file, (last, *others), tuple(reading.steps), variables)


def _read_stage(reading: _Reading, stage: Stage, name: str) -> dict[str, Variable]:
    """Read a stage, and return the variables of a container of it."""
    image = filled(stage.image, reading.before)
    parent = image.lower()
    if parent in reading.variables:
        variables, base = dict(reading.variables[parent]), reading.base_of[parent]
    else:
        variables, base = {}, Base(image, f"{reading.file}:{stage.line}")
        reading.bases.append(base)
    arguments = dict[str, str]()
    for each in stage.instructions:
        where = f"{reading.file}:{each.line}"
        known = {**arguments, **{key: found.value for key, found in variables.items()}}
        if each.word == "ARG":
            arguments |= _arguments((each,), known, reading.before)
        elif each.word == "ENV":
            for key, value in pairs(each.text).items():
                line = each.line_with(rf"\b{re.escape(key)}\b")
                variables[key] = Variable(filled(value, known), f"{reading.file}:{line}")
        lines = tuple((f"{reading.file}:{number}", filled(line, known)) for number, line in each.lines)
        reading.steps.append(BuildStep(each.word, filled(each.text, known), where, lines))
    reading.variables[name], reading.base_of[name] = variables, base
    return variables


def _arguments(
    instructions: tuple[Instruction, ...], known: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the arguments that ARG declares. One without a value has that of before the first FROM."""
    found = dict[str, str]()
    for each in instructions:
        for word in _words(each.text) if each.word == "ARG" else ():
            name, equals, value = word.partition("=")
            if equals:
                found[name] = filled(value, {**known, **found})
            elif name in before:
                found[name] = before[name]
    return found


def pairs(text: str) -> dict[str, str]:
    """Return the variables of an ENV: `NAME=VALUE …`, or the old form `NAME VALUE`."""
    words = _words(text)
    if words and "=" not in words[0]:
        name, _, value = text.strip().partition(" ")
        return {name: value.strip()}
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\n", " "))
    except ValueError:
        return text.split()


def filled(text: str, known: Mapping[str, str]) -> str:
    """Return a text with the variables replaced that are known. Others stay, except those that have a default."""

    def value(found: re.Match[str]) -> str:
        name, rest = found["name"] or found["plain"], found["rest"] or ""
        if rest.startswith(":+"):
            return rest[2:] if known.get(name) else ""
        if rest.startswith(":-"):
            return known.get(name) or rest[2:]
        return known.get(name, found[0])

    return _VARIABLE.sub(value, text)
