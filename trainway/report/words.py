"""Format numbers for the report."""

from __future__ import annotations

import math

from markupsafe import Markup, escape


def number(value: float) -> str:
    """Format a number with four significant digits and thousands separators, or infinity and NaN in words."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite"
    if value != 0 and abs(value) < 0.001:
        return f"{value:.2e}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}"


def loss(value: float) -> str:
    """Format a loss, in nats per token, with four decimals."""
    return f"{value:.4f}" if math.isfinite(value) else number(value)


def short(count: float) -> str:
    """Format a large count in thousands, millions, or billions, for example 2,361,024 as 2.36 million."""
    for scale, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= scale:
            return f"{count / scale:.3g} {name}"
    return f"{count:,.0f}"


def duration(seconds: float) -> str:
    """Format seconds for people: 4.12 ms, 12.3 s, 3 min 05 s, 2 h 07 min."""
    if not math.isfinite(seconds):
        return number(seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{_three_digits(1000 * seconds)} ms"
    if seconds < 59.95:
        return f"{_three_digits(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"


def percent(fraction: float) -> str:
    """Format a fraction as a percentage with one decimal."""
    return f"{fraction:.1%}" if math.isfinite(fraction) else number(fraction)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun: 1 step, 2 steps."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def commands(sentence: str) -> Markup:
    """Return a sentence as HTML, with the commands that it has in backticks as code."""
    parts = sentence.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def listing(items: list[str]) -> str:
    """Join items as a list: a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _three_digits(value: float) -> str:
    return f"{value:.{max(0, min(2, 2 - math.floor(math.log10(value))))}f}"
