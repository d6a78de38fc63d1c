"""Read YAML that all programs read alike: the plain data of YAML 1.2's core schema, without ambiguous values.

PyYAML reads YAML 1.1, in which `no` is false, `010` is 8, and `1:30` is 90. People and other programs read some of
these otherwise, so they are errors here. Anchors, aliases, tags, and merge keys are errors too: with them, a file of
200 bytes can stand for a billion values.

Sources: https://yaml.org/spec/1.2.2/#103-core-schema and https://yaml.org/type/, read 2026-11-23.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from trainway.spec.problems import KeyPath

# A platform of fifty node groups has 20 kB and six levels.
MOST_CHARACTERS = 1_000_000
MOST_LEVELS = 40
# More than any quantity needs, and fewer than Python converts without a limit of its own (4300).
MOST_DIGITS = 100

Position = tuple[int, int]  # line and column, counted from 1

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

# All control characters but tab and line breaks, and halves of a pair of UTF-16.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")

# What YAML 1.1 or 1.2 takes for something else than the other does, and what to write.
_AMBIGUOUS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"yes|Yes|YES|on|On|ON"),
        "some programs read it as true, and others as text",
        "write true, or put it between quotes",
    ),
    (
        re.compile(r"no|No|NO|off|Off|OFF"),
        "some programs read it as false, and others as text",
        "write false, or put it between quotes",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"),
        "some programs read it as a number to the base 60, and others as text",
        "put it between quotes if it is text, or write the number",
    ),
    (
        re.compile(r"[-+]?0[0-9_]+"),
        "some programs read it to the base 8, and others to the base 10",
        "write it without leading zeros, with 0o in front for the base 8, or between quotes",
    ),
    (
        re.compile(r"[-+]?0b[0-1_]+"),
        "some programs read it to the base 2, and others as text",
        "write it to the base 10, or between quotes",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|[-+]?0x[0-9a-fA-F_]*_[0-9a-fA-F_]*"),
        "some programs read it as a number, and others as text",
        "write the number without `_`, or put it between quotes",
    ),
)


class YamlFault(NamedTuple):
    """What a file may not have: where it stands, why not, and what to write."""

    position: Position
    key: KeyPath
    reason: str
    remedy: str


class UnreadableError(Exception):
    """Raised for text of which nothing can be read. It carries the one fault that ended the reading."""

    def __init__(self, fault: YamlFault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


@dataclass
class YamlReading:
    """The plain data of a text, where each of its keys and values stands, and every fault in it.

    Where there are faults, values are missing in `data`.
    """

    data: Any = None
    positions: dict[KeyPath, Position] = field(default_factory=dict)
    faults: list[YamlFault] = field(default_factory=list)


def read(text: str) -> YamlReading:
    """Return what a text of one YAML document says.

    Raises UnreadableError for text that is not YAML, is too long or too deep, or has anchors, aliases or tags.
    """
    if len(text) > MOST_CHARACTERS:
        reason = f"it has {len(text)} characters; a file may have {MOST_CHARACTERS}"
        raise UnreadableError(YamlFault((1, 1), (), reason, "check that it is the right file"))
    # The program in C reads a platform file twenty times as fast. It is in all published wheels of PyYAML.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    reading = YamlReading()
    try:
        _forbid(yaml.parse(text, loader))
        root = yaml.compose(text, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        reason = f"it is not valid YAML: {error.problem or error.context}"
        raise UnreadableError(YamlFault(position, (), reason, "mend the syntax at this line")) from None
    except yaml.YAMLError as error:
        reason = f"it is not valid YAML: {str(error).partition(chr(10))[0]}"
        raise UnreadableError(YamlFault((1, 1), (), reason, "mend the syntax")) from None
    if root is not None:
        reading.data = _value(root, (), reading)
    return reading


def dump(data: Any, *, flow: bool | None = False, width: int = 80) -> str:
    """Return a text of which `read` makes the same data: mappings with keys that are text, lists, and plain values.

    `flow` puts lists and mappings in brackets, and None only the innermost.
    """
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=flow, width=width)


class _Dumper(yaml.SafeDumper):
    """Quotes text that some YAML reader takes for another type, such as 0o17 or 0:0, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 # of the parent
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT.pattern})$"), list("-+.0123456789"))
for _pattern in (_BASE, *(each for each, *_ in _AMBIGUOUS)):
    _Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"^(?:{_pattern.pattern})$"), None)


def _forbid(events: Iterator[yaml.Event]) -> None:
    """Raise UnreadableError at the first thing that no file may have, before anything is made of the file."""
    level = 0
    for event in events:
        mark = event.start_mark
        position = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
        if level > MOST_LEVELS:
            reason = f"it is nested more than {MOST_LEVELS} levels deep"
            raise UnreadableError(YamlFault(position, (), reason, "write it with fewer levels"))
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            reason = f"{event.anchor} is an anchor, a name by which a file repeats a value"
            raise UnreadableError(YamlFault(position, (), reason, "write the value out wherever it is used"))
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            reason = f"the tag {event.tag} says of which type a value is, which its key says already"
            raise UnreadableError(YamlFault(position, (), reason, "leave the tag out; put text between quotes"))


def _value(node: yaml.Node, key: KeyPath, reading: YamlReading) -> Any:
    """Return a node's plain data, and note where it and all below it stand, and what is wrong there."""
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, key, reading)
    if isinstance(node, yaml.SequenceNode):
        values = []
        for index, item in enumerate(node.value):
            reading.positions[*key, index] = _position(item)
            values.append(_value(item, (*key, index), reading))
        return values
    assert isinstance(node, yaml.ScalarNode)
    # A quoted text has its quotation mark as style, and a block of lines has | or >.
    return _quoted(node, key, reading) if node.style else _plain(node, key, reading)


def _mapping(node: yaml.MappingNode, key: KeyPath, reading: YamlReading) -> dict[str, Any]:
    values = dict[str, Any]()
    for name, value in node.value:
        position = _position(name)
        if not isinstance(name, yaml.ScalarNode):
            remedy = "write text in front of the colon; put text that begins with [ or { between quotes"
            reading.faults.append(YamlFault(position, key, "a key is not text", remedy))
            continue
        inner = (*key, name.value)
        if name.value == "<<" and not name.style:
            remedy = "write the keys out in each of the places"
            reading.faults.append(YamlFault(position, inner, "it merges the keys of another place", remedy))
            continue
        # Faults of a key, such as `no:`, are those of a value. A number is the text of the key.
        _plain_text(name, inner, reading)
        if inner in reading.positions:
            reason = (
                f"the key stands twice; the first is on line {reading.positions[inner][0]}, and only one of them would"
                " count"
            )
            reading.faults.append(YamlFault(position, inner, reason, "keep one of the two"))
        reading.positions[inner] = position
        values[name.value] = _value(value, inner, reading)
    return values


def _quoted(node: yaml.ScalarNode, key: KeyPath, reading: YamlReading) -> str:
    # "\0" and "\ud800" are YAML, and no path, variable, or file can have them.
    if _UNPRINTABLE.search(node.value):
        remedy = "leave it out; write a line break as \\n and a tab as \\t"
        reading.faults.append(YamlFault(_position(node), key, "it has a control character", remedy))
    return str(node.value)


def _plain_text(node: yaml.ScalarNode, key: KeyPath, reading: YamlReading) -> bool:
    """Return whether text without quotes is the same to all readers. If it is not, note the fault."""
    if not node.style:
        for pattern, reason, remedy in _AMBIGUOUS:
            if pattern.fullmatch(node.value):
                reading.faults.append(YamlFault(_position(node), key, reason, remedy))
                return False
    return True


def _plain(node: yaml.ScalarNode, key: KeyPath, reading: YamlReading) -> Any:
    """Return what text without quotes stands for in YAML 1.2's core schema. None, with a fault, if that is not sure."""
    text: str = node.value
    if not _plain_text(node, key, reading) or _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text) or _BASE.fullmatch(text):
        if len(text) > MOST_DIGITS:
            reason = f"it is a number of {len(text)} digits; a number may have {MOST_DIGITS}"
            reading.faults.append(YamlFault(_position(node), key, reason, "write the number that is meant"))
            return None
        # With the base 0, Python takes the prefixes of YAML 1.2. There are no leading zeros left.
        return int(text, 0)
    if _NOT_FINITE.fullmatch(text) or (_FLOAT.fullmatch(text) and not math.isfinite(float(text))):
        reading.faults.append(
            YamlFault(
                _position(node),
                key,
                "it is not a finite number",
                "put it between quotes if it is text, or write the number that is meant",
            )
        )
        return None
    return float(text) if _FLOAT.fullmatch(text) else text


def _position(node: yaml.Node) -> Position:
    return (node.start_mark.line + 1, node.start_mark.column + 1)
