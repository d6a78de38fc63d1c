"""Values that stand in for wrong ones, so that one run checks the rules between the other keys of a file, too."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from trainway.spec.details import first_hand, key_path
from trainway.spec.document import Document
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath

Breach = TypeVar("Breach", bound=tuple[Any, ...])

# Two values for each required key. They have little in common, because a rule counts as broken only if both of them
# break it. A name has the numbers of the list items around it.
VALUES: Mapping[str, tuple[Any, Any]] = {
    "region": ("us-west-2", "eu-north-1"),
    "zones": (["usw2-az1", "usw2-az2"], ["eun1-az1", "eun1-az2"]),
    "node_groups": (
        [{"name": "stand-in", "instance_type": "p5.48xlarge", "count": 1}],
        [{"name": "stand-in", "instance_type": "m5.large", "count": 1000}],
    ),
    "instance_type": ("p5.48xlarge", "m5.large"),
    "count": (1, 1000),
    "name": ("stand-in{}", "substitute{}"),
}
# The keys beside a key that limit its value, for each of the two.
LIMITS: Mapping[str, tuple[str, str]] = {"count": ("min_count", "max_count")}
# A stand-in can show that another key is missing.
MOST_ROUNDS = 4


def with_stand_ins(document: Document, data: Mapping[str, Any]) -> tuple[list[Platform], set[KeyPath]]:
    """Return two platforms with stand-ins for what is missing in `data`, and the keys that were changed.

    `data` is what the document has without its wrong keys. An optional section that misses a key without a stand-in is
    left out. There are no platforms if the data cannot be completed, for example because an item of a list is no
    section.
    """
    platforms, changed = list[Platform](), set[KeyPath]()
    for variant in range(2):
        completed = copy.deepcopy(dict(data))
        for _ in range(MOST_ROUNDS):
            try:
                platforms.append(Platform.model_validate(completed))
                break
            except ValidationError as error:
                details = first_hand(error.errors(include_url=False))
            paths = [
                _complete(completed, key_path(document, each), variant) for each in details if each["type"] == "missing"
            ]
            changed.update(path for path in paths if path)
            if len(paths) < len(details) or not all(paths):
                return [], set()
    return (platforms, changed) if len(platforms) == 2 else ([], set())


def in_both(one: Sequence[Breach], other: Sequence[Breach], changed: Collection[KeyPath]) -> list[Breach]:
    """Return the breaches of both platforms at keys that were not changed. A breach begins with its key."""
    return [each for each in one if each in other and not any(each[0][: len(path)] == path for path in changed)]


def _complete(data: dict[str, Any], path: KeyPath, variant: int) -> KeyPath:
    """Put a stand-in at a path, or remove the section around it. Return the path that was changed, if one could be."""
    *parents, last = path
    holder: Any = data
    for part in parents[:-1]:
        holder = holder[part]
    section: Any = holder[parents[-1]] if parents else data
    if (values := VALUES.get(str(last))) is not None:
        number = "".join(f"-{part}" for part in parents if isinstance(part, int))
        value = values[variant]
        if limits := LIMITS.get(str(last)):
            value = section.get(limits[variant]) or value
        section[last] = value.format(number) if isinstance(value, str) else copy.deepcopy(value)
        return path
    if parents and isinstance(parents[-1], str):
        del holder[parents[-1]]
        return tuple(parents)
    return ()
