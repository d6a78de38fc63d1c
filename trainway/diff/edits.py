"""Find the keys of a platform file that were edited since the last deploy, and undo one of the edits."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainway.spec.problems import KeyPath

# A key of the file, or the name of an item in a list of things that have names.
Route = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """One edited key. `key` is where it is in the file of today, or the list that an item is missing from.

    `what` says what was done to it, and `put_back` is the whole file without this edit.
    """

    key: KeyPath
    what: str
    put_back: Mapping[str, Any]


def edits_between(deployed: Mapping[str, Any], today: Mapping[str, Any]) -> list[Edit]:
    """Return the edits that lead from one file's data to the other's, in the order of the later file's keys.

    Items of lists are told apart by their names where they have names.
    """
    return [Edit(key, what, _with(today, route, value)) for key, route, what, value in _edits(deployed, today, (), ())]


_GONE = object()
_Found = tuple[KeyPath, Route, str, Any]


def _edits(old: Any, new: Any, key: KeyPath, route: Route) -> Iterator[_Found]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*new, *(each for each in old if each not in new)]:
            if name not in new:
                yield key, (*route, name), f"{name} was removed", old[name]
            elif name not in old:
                yield (*key, name), (*route, name), "it was added", _GONE
            else:
                yield from _edits(old[name], new[name], (*key, name), (*route, name))
    elif _are_named(old) and _are_named(new):
        yield from _edits_of_items(old, new, key, route)
    else:
        yield key, route, f"it was {_shown(old)}", old


def _edits_of_items(old: list[Any], new: list[Any], key: KeyPath, route: Route) -> Iterator[_Found]:
    before, after = {each["name"]: each for each in old}, {each["name"]: each for each in new}
    for number, (name, each) in enumerate(after.items()):
        if name in before:
            yield from _edits(before[name], each, (*key, number), (*route, name))
        else:
            yield (*key, number), (*route, name), f"{name} was added", _GONE
    for position, (name, each) in enumerate(before.items()):
        if name not in after:
            earlier = {other["name"] for other in old[:position]}
            index = max((number + 1 for number, other in enumerate(after) if other in earlier), default=0)
            yield key, route, f"{name} was removed", [*new[:index], each, *new[index:]]
    staying = [name for name in after if name in before]
    if staying != [name for name in before if name in after]:
        order = [after[name] for name in sorted(after, key=lambda name: [*before, *after].index(name))]
        yield key, route, "its order was changed", order


def _with(data: Mapping[str, Any], route: Route, value: Any) -> Mapping[str, Any]:
    """Return a copy of the data with the value at a route, or without what is there."""
    found = copy.deepcopy(dict(data))
    *parents, last = route
    holder: Any = found
    for part in parents:
        holder = _item(holder, part)[1]
    if isinstance(holder, list):
        index, _ = _item(holder, last)
        holder[index : index + 1] = [] if value is _GONE else [value]
    elif value is _GONE:
        del holder[last]
    else:
        holder[last] = value
    return found


def _item(holder: Any, part: str) -> tuple[Any, Any]:
    """Return the index and the value of a part; of a name that is not in the list, the list's end."""
    if not isinstance(holder, list):
        return part, holder[part]
    named = ((index, each) for index, each in enumerate(holder) if each["name"] == part)
    return next(named, (len(holder), None))


def _are_named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) and "name" in each for each in value)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) else "another"
