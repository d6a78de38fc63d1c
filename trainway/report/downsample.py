"""Reduce the number of points without changing the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

Points = list[tuple[float, float]]


def keep_extremes(points: Sequence[tuple[float, float]], limit: int = 1000) -> Points:
    """Return at most `limit` of the points, in order: the first, the last, and the lowest and highest of every stretch.

    A spike of one step in a hundred thousand stays in the picture. With every n-th point it would be lost. Points whose
    y is not finite become NaN, which leaves a gap in a line. A stretch keeps them only if it has no other points.
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
    """Return the means of at most `limit` stretches of rows, by column, and the index at which each stretch begins.

    Use it for stacked areas: in a mean, the columns still add up to the whole. In extremes they do not.
    """
    begins, means = [], []
    for stretch in _stretches(len(rows), min(limit, len(rows))):
        part = rows[stretch]
        begins.append(stretch.start)
        means.append([sum(column) / len(part) for column in zip(*part, strict=True)])
    return begins, means


def _stretches(length: int, count: int) -> Iterator[slice]:
    """Yield `count` neighboring slices of almost the same length that cover `length` items."""
    for number in range(count):
        yield slice(number * length // count, (number + 1) * length // count)
