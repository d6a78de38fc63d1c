"""Xid errors of NVIDIA's driver in logs. trainway/spec/facts/xids.yaml explains each number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainway.explain.evidence import Evidence
from trainway.explain.log_line_at import log_line_at
from trainway.explain.matches import Match, quote_log_line
from trainway.explain.rules import Level
from trainway.spec.facts.xids import load_xids

CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
# NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, name=python, Row Remapper: …
_LINE = re.compile(r"NVRM: Xid \((?P<gpu>(?:PCI:)?[\w:.]+)\): (?P<number>\d+),?\s*(?P<words>.*)")

# Ch 00000002 caused by previous Xid 149
_EARLIER = re.compile(r"caused by previous Xid (\d+)")


def xid_matches(evidence: Evidence, year: int) -> Iterator[Match]:
    """Yield the Xid errors in every log, without those that only follow another one."""
    for log in evidence.logs:
        for found in _LINE.finditer(log.text):
            number = int(found["number"])
            if earlier := _EARLIER.search(found["words"]):
                number = int(earlier[1])
            xid = load_xids().get(number)
            if xid and xid.level == "consequence":
                continue
            quote = quote_log_line(log_line_at(log, found.start(), year))
            node = quote.node or "a node"
            if xid is None:
                meaning, remedy, level = f"the driver reported {found['words']}", "look it up, by its number", "symptom"
            else:
                meaning, remedy, level = xid.meaning, xid.remedy, xid.level
            repair = f"; EKS's node repair would {xid.eks} it" if xid and xid.eks else ""
            yield Match(
                name=f"xid-{number}",
                level=Level[level.upper()],
                cause=f"Xid {number} on GPU {found['gpu']} of {node}: {meaning}",
                remedy=remedy + repair,
                source=CATALOGUE,
                quote=quote,
            )
