"""The rules that are patterns: rules/*.yaml, one file a topic."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from pathlib import Path
from string import Formatter

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from trainway.spec.facts.files import read_facts

RULES = Path(__file__).with_name("rules")
# What a rule's sentences can name beside the groups of its patterns.
PLACEHOLDERS = frozenset({"who", "rank", "node", "subject", "message"})


class Level(IntEnum):
    """How much a match says, most first."""

    CAUSE = 0
    """It says itself why the job failed."""
    SYMPTOM = 1
    """It is believed where nobody says why: its reason may be elsewhere, as of a timeout."""
    ENDING = 2
    """It says only how a process ended: by which signal, told by whom."""
    CONSEQUENCE = 3
    """It is what ranks say that die because another did, and is never why."""


class EventPattern(BaseModel):
    """Events of a source whose reason, and whose message, match."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    reason: str = ""
    message: str = ""

    @field_validator("reason", "message")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        re.compile(pattern)
        return pattern


class FailureRule(BaseModel):
    """A failure that is known by what was written.

    `log`, `event` and `exit` are ways to know it, each enough. A line, or an event's message, that one of `unless`
    matches is not counted. Of two rules that match one line, that of the higher precedence is believed. `cause` and
    `remedy` are sentences in which {name} is a group of the pattern that matched, and {who} the rank and the node;
    a [part in brackets] is left out where a group in it matched nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    level: Level
    log: tuple[str, ...] = ()
    event: tuple[EventPattern, ...] = ()
    exit: tuple[int, ...] = ()
    precedence: int = 0
    unless: tuple[str, ...] = ()
    cause: str = ""
    remedy: str = ""
    source: str = ""

    @field_validator("level", mode="before")
    @classmethod
    def _level_by_name(cls, level: object) -> object:
        return Level[level.upper()] if isinstance(level, str) else level

    @field_validator("log", "unless")
    @classmethod
    def _compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            re.compile(pattern)
        return patterns

    @model_validator(mode="after")
    def _is_whole(self) -> FailureRule:
        if self.level is Level.CONSEQUENCE:
            return self
        if not (self.cause and self.remedy and self.source):
            raise ValueError(f"{self.name} lacks a cause, a remedy or a source")
        known = PLACEHOLDERS.union(*(re.compile(pattern).groupindex for pattern in self.patterns))
        for sentence in (self.cause, self.remedy):
            unknown = {name for _, name, _, _ in Formatter().parse(sentence) if name} - known
            if unknown:
                raise ValueError(f"{self.name} names {sorted(unknown)}, which none of its patterns has")
        return self

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every pattern whose groups its sentences can name."""
        return (*self.log, *(part for event in self.event for part in (event.reason, event.message)))


@cache
def load_rules(directory: Path = RULES) -> tuple[FailureRule, ...]:
    """The rules of all files, by file and by order in it; read once a process.

    Raises pydantic's ValidationError for a rule that is not whole, and ValueError for a name that stands twice.
    """
    rules = [FailureRule.model_validate(each) for file in sorted(directory.glob("*.yaml")) for each in read_facts(file)]
    names = [rule.name for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"rules of one name: {', '.join(twice)}")
    return tuple(rules)
