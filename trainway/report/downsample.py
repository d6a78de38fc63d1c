"""Fewer points for the same picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

Points = list[tuple[float, float]]


def keep_extremes(points: Sequence[tuple[float, float]], limit: int = 1000) -> Points:
    """Return at most `limit` of the points, in order: the first, the last, and the lowest and highest of every stretch.

    A spike of one step in a hundred thousand stays in the picture, where every n-th point would lose it. Points
    whose y is not finite come back as NaN, which a line leaves a gap for; a stretch keeps them only if it has
    nothing else.
    """
    drawn = [(x, y if math.isfinite(y) else math.nan) for x, y in points]
    if len(drawn) <= limit:
        return drawn
    first, *inner, last = drawn
    kept = [first]
    for stretch in _stretches(len(inner), (limit - 2) // 2):
        part = inner[stretch]
        finite = [point for point in part if not math.isnan(point[1])]
        if finite:
            kept += sorted({min(finite, key=lambda p: p[1]), max(finite, key=lambda p: p[1])})
        else:
            kept.append(part[0])
    return [*kept, last]


def stretch_means(rows: Sequence[Sequence[float]], limit: int) -> tuple[list[int], list[list[float]]]:
    """The mean of at most `limit` stretches of rows, column by column, and the index where each stretch begins.

    For stacked areas: a mean keeps the sum of the columns the sum of the whole, which extremes do not.
    """
    begins, means = [], []
    for stretch in _stretches(len(rows), min(limit, len(rows))):
        part = rows[stretch]
        begins.append(stretch.start)
        means.append([sum(column) / len(part) for column in zip(*part, strict=True)])
    return begins, means


def _stretches(length: int, count: int) -> Iterator[slice]:
    """`count` neighboring slices of almost the same length that cover `length` items."""
    for number in range(count):
        yield slice(number * length // count, (number + 1) * length // count)
