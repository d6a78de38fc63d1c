"""Errors of the Lustre client in the kernel's log. lustre.yaml explains each number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from trainway.explain.evidence import Evidence
from trainway.explain.log_line_at import line_around, log_line_at
from trainway.explain.matches import Match, quote_log_line
from trainway.explain.rules import Level
from trainway.spec.facts.files import read_facts

SOURCE = "https://doc.lustre.org/lustre_manual.xhtml"
# LustreError: 11-0: fsx-OST0003-osc: operation ost_write to node 10.0.1.2@tcp failed: rc = -107
_ERROR = re.compile(r"LustreError: .*?\b(?:rc|err|rc:)\s*[=:]?\s*-(?P<number>\d+)\b")
_EVICTED = re.compile(r"LustreError: .*?[Tt]his client was evicted by (?P<target>\S+?);")
# The number of these says nothing of its own. A rule explains them.
_CONFIGURATION = re.compile(r"failed processing log|[Cc]onfi\w+ from log")
_CONNECTED = re.compile(r"Lustre: .*(?:Connection restored to|recovery complete)")


class LustreErrno(BaseModel):
    """The meaning of an error number for Lustre, its remedy, and whether the client overcomes it by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["cause", "symptom"]
    meaning: str
    remedy: str
    overcome: bool = False


@cache
def load_lustre_errnos() -> dict[int, LustreErrno]:
    """Return the known error numbers. Each process reads them once."""
    facts = read_facts(Path(__file__).with_name("lustre.yaml"))
    return {number: LustreErrno.model_validate(each) for number, each in facts.items()}


def lustre_matches(evidence: Evidence, year: int) -> Iterator[Match]:
    """Yield the errors of the Lustre client in every log, without those after which it connected again."""
    for log in evidence.logs:
        if "LustreError" not in log.text:
            continue
        connected = max((found.start() for found in _CONNECTED.finditer(log.text)), default=-1)
        for found in _EVICTED.finditer(log.text):
            quote = quote_log_line(log_line_at(log, found.start(), year))
            cause = f"the Lustre server {found['target']} evicted {quote.who}, whose open files and locks are lost"
            remedy = (
                "launch again; a node that is evicted often did not answer in time: look at its network and its load"
            )
            yield Match("lustre-evicted", Level.CAUSE, cause, remedy, SOURCE, quote)
        for found in _ERROR.finditer(log.text):
            start, end = line_around(log.text, found.start())
            known = load_lustre_errnos().get(int(found["number"]))
            if known is None or (known.overcome and connected > start) or _told(log.text[start:end]):
                continue
            quote = quote_log_line(log_line_at(log, found.start(), year))
            cause = f"Lustre error {found['number']} on {quote.who}: {known.meaning}"
            name, level = f"lustre-{found['number']}", Level[known.level.upper()]
            yield Match(name, level, cause, known.remedy, SOURCE, quote)


def _told(line: str) -> bool:
    """Return whether something else explains a line with an error number."""
    return bool(_EVICTED.search(line) or _CONFIGURATION.search(line))
