"""The names of metrics in expressions of PromQL."""

from __future__ import annotations

import re

# Functions, operators, and keywords that the expressions here use.
# https://prometheus.io/docs/prometheus/latest/querying/functions/ and operators/ (read 2026-11-25)
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        abs and avg avg_over_time by changes clamp_min count group_left group_right ignoring increase Inf
        label_replace last_over_time max max_over_time min min_over_time NaN offset on or quantile quantile_over_time
        rate round scalar sum sum_over_time time timestamp unless without
        """,
    )
)
# Strings, selectors of labels, durations, and lists of labels have no names of metrics.
_NO_METRICS = re.compile(
    r'"[^"]*"|\{[^{}]*\}|\[[^\]]*\]|\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)|\boffset\s+\w+'
)


def metrics_in(expression: str) -> frozenset[str]:
    """Return the names of the metrics in an expression of PromQL, of the form that this package writes."""
    bare = _NO_METRICS.sub(" ", re.sub(r'"[^"]*"', '""', expression))
    return frozenset(re.findall(r"(?<![\w.])[A-Za-z_:][\w:]*", bare)) - _WORDS
