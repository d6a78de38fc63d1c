"""The rules: rules.yaml, and what the rules about variables and commands find."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trainway.image_doctor.subject import Subject
from trainway.spec.facts.files import read_facts


class ImageSeverity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """NCCL does not use EFA, or the image cannot be built."""
    WARNING = "warning"
    """The image can be slower than it has to be, or the next build can be another one."""


class ImageRule(BaseModel):
    """A rule. It is about a `variable`, a `command`, or what a function of its code in `checks` compares.

    A variable is found if its value does not match `harmless` as a whole, and a command if its words lack one of
    `options`. `aws` is the code of AWS's doctor. A `certain` rule keeps a job from EFA whatever else the image has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str = Field(pattern=r"^[a-z0-9-]+$")
    severity: ImageSeverity
    why: str
    fix: str
    aws: str | None = None
    certain: bool = False
    variable: str | None = None
    harmless: str | None = None
    command: str | None = None
    options: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> ImageRule:
        if (self.variable is None) != (self.harmless is None) or bool(self.command) != bool(self.options):
            raise ValueError(f"{self.code}: a variable needs `harmless`, and a command `options`")
        return self


@dataclass(frozen=True)
class ImageFinding:
    """What is wrong, where, why it matters, and the remedy."""

    code: str
    severity: ImageSeverity
    where: str
    what: str
    why: str
    fix: str
    is_certain: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.severity}: {self.what} [{self.code}]\n    why: {self.why}\n    fix: {self.fix}"

    def as_json(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return asdict(self)


@cache
def load_rules() -> dict[str, ImageRule]:
    """Return the rules by their codes."""
    rules = [ImageRule.model_validate(each) for each in read_facts(Path(__file__).with_name("rules.yaml"))]
    return {rule.code: rule for rule in rules}


def finding(code: str, where: str, what: str) -> ImageFinding:
    """Return the finding of a rule."""
    rule = load_rules()[code]
    return ImageFinding(code, rule.severity, where, what, rule.why, rule.fix, rule.certain)


def variables_found(subject: Subject) -> Iterator[ImageFinding]:
    """Yield the variables with values that keep a job from EFA."""
    for rule in load_rules().values():
        for name, variable in subject.variables.items() if rule.variable else ():
            if re.fullmatch(rule.variable or "", name) and not re.fullmatch(rule.harmless or "", variable.value):
                yield finding(rule.code, variable.where, f"{name}={variable.value}")


def commands_found(subject: Subject) -> Iterator[ImageFinding]:
    """Yield the commands without an option that they need."""
    for rule in load_rules().values():
        for step in subject.runs if rule.command else ():
            for words in re.findall(rf"{rule.command}([^&;|\n]*)", step.text):
                # Options in a variable are not known.
                if missing := [each for each in rule.options if not _has(words, each)]:
                    named = " and ".join(each.partition("|")[0] for each in missing)
                    yield finding(rule.code, step.where_of(rule.command or ""), f"the installer runs without {named}")


def _has(words: str, option: str) -> bool:
    long, _, short = option.partition("|")
    short_ones = "".join(re.findall(r"(?<!\S)-(\w+)", words))
    return long in words or short.removeprefix("-") in short_ones or "$" in words
