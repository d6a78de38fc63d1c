"""Write a purchase into the platform file. Comments and all other lines stay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from trainway.extensions.capacity.buy import Purchase
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import CapacityKind
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError
from trainway.spec.sections.capacity import minute

_KEYS = {CapacityKind.CAPACITY_BLOCK: "capacity_block", CapacityKind.TRAINING_PLAN: "training_plan"}


def section_of(purchase: Purchase) -> str:
    """Return the value of `capacity` for a purchase, as one line of YAML."""
    name = purchase.id if purchase.kind is CapacityKind.CAPACITY_BLOCK else f'"{purchase.id}"'
    times = f", start: {minute(purchase.start)}, end: {minute(purchase.end)}" if purchase.start and purchase.end else ""
    return f"{{{_KEYS[purchase.kind]}: {name}{times}}}"


def write_capacity(file: Path, group: str, purchase: Purchase, zone: str | None = None) -> None:
    """Set `capacity` of a node group of a platform file, and `zone` if one is given.

    Raises UsageError if the file has no such group, and SpecError if the platform would not be valid, for example
    because its zones lack that of the purchase. The file is then unchanged.
    """
    text = file.read_text(encoding="utf-8")
    changed = with_key(text, group, "capacity", section_of(purchase))
    if zone is not None:
        changed = with_key(changed, group, "zone", zone)
    # The loader finds the lock and other files beside the platform file, so the new text takes its place first.
    _replace(file, changed)
    try:
        load_platform(file)
    except SpecError:
        _replace(file, text)
        raise


def with_key(text: str, group: str, key: str, value: str) -> str:
    """Return the text of a platform file in which a node group has this value for a key. Raises UsageError."""
    node = _group(text, group)
    for name, old in node.value:
        if name.value == key:
            if isinstance(old, yaml.CollectionNode) and not old.flow_style:
                return f"{text[: name.end_mark.index]}: {value}{text[_end_of(old) :]}"
            return text[: old.start_mark.index] + value + text[old.end_mark.index :]
    _, last = node.value[-1]
    if node.flow_style:
        at = len(text[: node.end_mark.index - 1].rstrip().removesuffix(","))
        return f"{text[:at]}, {key}: {value}{text[at:]}"
    at = text.find("\n", _end_of(last))
    at = len(text) if at == -1 else at
    indent = " " * node.start_mark.column
    return f"{text[:at]}\n{indent}{key}: {value}{text[at:]}"


def _end_of(node: Any) -> int:
    """Return where a value ends. PyYAML ends one in block style after the comments that follow it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end_of(last[1] if isinstance(last, tuple) else last)


def _group(text: str, group: str) -> Any:
    root: Any = yaml.compose(text, yaml.SafeLoader)
    for node in _value(root, "node_groups").value:
        if _value(node, "name").value == group:
            return node
    raise usage_error(f"node group {group}", why="the platform file has no such group", fix="name one of `node_groups`")


def _value(mapping: Any, key: str) -> Any:
    return next(value for name, value in mapping.value if name.value == key)


def _replace(file: Path, text: str) -> None:
    written = file.with_name(f".{file.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(file)
