"""The rules that are patterns: rules/*.yaml, one file per topic."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from pathlib import Path
from string import Formatter

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from trainway.spec.facts.files import read_facts

RULES = Path(__file__).with_name("rules")
# Names that a rule's sentences can use in addition to the groups of its patterns.
PLACEHOLDERS = frozenset({"who", "rank", "node", "subject", "message"})


_NAMED = re.compile(r"\(\?P<(\w+)>")


class Level(IntEnum):
    """How much a match tells about the cause, most first."""

    CAUSE = 0
    """The match states why the job failed."""
    SYMPTOM = 1
    """The match is a symptom, such as a timeout. It counts if no cause is found, because the cause may be elsewhere."""
    ENDING = 2
    """The match states only how a process ended: by which signal, or by whose request."""
    HINT = 3
    """The match is worth a change, and fails no job by itself, such as a slow network. It comes last."""
    CONSEQUENCE = 4
    """The match is a reaction of ranks to the failure of another. It is never the cause."""


class EventPattern(BaseModel):
    """Events of a source whose reason and message match."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    reason: str = ""
    message: str = ""


class FailureRule(BaseModel):
    """A known failure, identified by its output.

    `log`, `event`, and `exit` are alternative ways to identify it. A line or an event's message that matches one of
    `unless` does not count, and neither does one after which the program continued, unless the rule is `lasting`.
    Findings of the rules that it is `instead_of` tell less, and come after its own. If two rules match one line,
    the one of the higher precedence comes first. A negative precedence is for a rule that counts where no other does.
    `cause` and `remedy` are sentences in which {name} is a group of the pattern that matched, and {who} the rank and
    the node. A [part in brackets] is left out if a group in it matched
    nothing. The line of a rule that is `survived` is of a shell or a launcher that continues after it, so that a later
    error says more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    level: Level
    log: tuple[str, ...] = ()
    event: tuple[EventPattern, ...] = ()
    exit: tuple[int, ...] = ()
    precedence: int = 0
    unless: tuple[str, ...] = ()
    lasting: bool = False
    survived: bool = False
    instead_of: tuple[str, ...] = ()
    cause: str = ""
    remedy: str = ""
    source: str = ""

    @field_validator("level", mode="before")
    @classmethod
    def _level_by_name(cls, level: object) -> object:
        return Level[level.upper()] if isinstance(level, str) else level

    @model_validator(mode="after")
    def _is_whole(self) -> FailureRule:
        if self.level is Level.CONSEQUENCE:
            return self
        if not (self.cause and self.remedy and self.source):
            raise ValueError(f"{self.name} lacks a cause, a remedy or a source")
        known = PLACEHOLDERS.union(*(_NAMED.findall(pattern) for pattern in self.patterns))
        for sentence in (self.cause, self.remedy):
            unknown = {name for _, name, _, _ in Formatter().parse(sentence) if name} - known
            if unknown:
                raise ValueError(f"{self.name} names {sorted(unknown)}, which none of its patterns has")
        return self

    @property
    def lasts(self) -> bool:
        """Return whether a match counts although the program continued, for example that the loss is NaN."""
        return self.lasting or self.level is Level.HINT

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return every pattern whose groups its sentences can use."""
        return (*self.log, *(part for event in self.event for part in (event.reason, event.message)))


@cache
def load_rules(directory: Path = RULES) -> tuple[FailureRule, ...]:
    """Return the rules of all files, ordered by file and position. Each process reads them once.

    Raises pydantic's ValidationError for an incomplete rule, and ValueError for a duplicate or unknown name.
    """
    rules = [FailureRule.model_validate(each) for file in sorted(directory.glob("*.yaml")) for each in read_facts(file)]
    names = [rule.name for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"rules of one name: {', '.join(twice)}")
    if unknown := {name for rule in rules for name in rule.instead_of} - set(names):
        raise ValueError(f"no rule has the name {', '.join(sorted(unknown))}")
    return tuple(rules)
