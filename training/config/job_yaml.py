"""YAML as the launcher reads it: YAML 1.2's plain values, without those that other programs read as something else.

PyYAML reads YAML 1.1, in which `no` is false, `010` is 8, and `1:30` is 90. The launcher refuses these before it sends
a job file (trainway/spec/strict_yaml.py), but this program can also be started without the launcher.

https://yaml.org/spec/1.2.2/#103-core-schema and https://yaml.org/type/ (read 2026-11-24)
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
_CORE = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
}
# What YAML 1.1 or 1.2 takes for something else than the other does: words, leading zeros, the base 60, `_`, and binary.
_TWO_THINGS = re.compile(
    r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|[-+]?0[0-9_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[-+]?0b[01_]+|[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?|[-+]?0x[0-9a-fA-F_]*_[0-9a-fA-F_]*"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class _Loader(yaml.SafeLoader):
    """Resolves plain values by the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 # as PyYAML has it


for name, (pattern, firsts) in _CORE.items():
    starts = [first if first != "\0" else "" for first in firsts]
    _Loader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"^(?:{pattern})$"), starts)
_Loader.add_constructor(f"{_TAG}int", lambda _, node: int(node.value, 0))
_Loader.add_constructor(f"{_TAG}float", lambda _, node: float(node.value))


class TwoThings(yaml.YAMLError):
    """A value that programs read differently. The message says where it is, and what to write."""


def read_yaml(text: str) -> Any:
    """Return what a text says. Raises yaml.YAMLError for text that is not YAML, and TwoThings."""
    root = yaml.compose(text, _Loader)
    if root is not None:
        _check(root)
    return yaml.load(text, _Loader)  # a SafeLoader


def _check(node: yaml.Node) -> None:
    if isinstance(node, yaml.ScalarNode) and node.style is None and _TWO_THINGS.fullmatch(node.value):
        line = node.start_mark.line + 1
        raise TwoThings(f"line {line}: programs read {node.value} differently; put text between quotes")
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _check(each)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _check(key)
            _check(value)
