"""Numbers that a program writes into files: JSON lines, or TensorBoard's event files.

The launcher sends this file to the nodes beside the starter, which imports it. It requires Python 3.9 and nothing else.
"""

import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

_STEPS = ("step", "global_step", "iteration", "iter", "_step")
# A record has its length and a checksum of that before it, and a checksum of the content behind it:
# https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details (read 2026-11-23)
_HEADER, _FOOTER = 12, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class MetricFiles:
    """The files below a directory that match a pattern, and how far they were read.

    What is in them at the beginning is of earlier attempts.
    """

    def __init__(self, directory: Path, pattern: str) -> None:
        self._directory = directory
        self._is_json = pattern.endswith(".jsonl")
        self._pattern = pattern if self._is_json else f"{pattern}/**/*tfevents*" if pattern else "**/*tfevents*"
        self._offsets = {file: file.stat().st_size for file in self._files()}

    def new(self) -> "Iterator[dict[str, float]]":
        """Yield the numbers of each new line or record, by their names. `step` is the name of the step."""
        for file in self._files():
            try:
                with file.open("rb") as opened:
                    opened.seek(self._offsets.get(file, 0))
                    content = opened.read()
            except OSError:
                continue
            found, read = lines_of(content) if self._is_json else records_of(content)
            self._offsets[file] = self._offsets.get(file, 0) + read
            yield from (numbers for numbers in found if numbers)

    def _files(self) -> "list[Path]":
        try:
            return sorted(file for file in self._directory.glob(self._pattern) if file.is_file())
        except OSError:
            return []


def lines_of(content: bytes) -> "tuple[list[dict[str, float]], int]":
    """Return the numbers of whole lines of JSON, and how many bytes these lines have."""
    whole = content.rpartition(b"\n")[0]
    found = []
    for line in whole.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(_named(value))
    return found, len(whole) + 1 if b"\n" in content else 0


def records_of(content: bytes) -> "tuple[list[dict[str, float]], int]":
    """Return the numbers of whole records of an event file, and how many bytes these records have.

    https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto and summary.proto beside
    it (read 2026-11-23)
    """
    found, at = [], 0
    while len(content) >= at + _HEADER:
        size = struct.unpack_from("<Q", content, at)[0]
        end = at + _HEADER + size + _FOOTER
        if len(content) < end:
            break
        # A record of a kind that is not known here has no numbers.
        with contextlib.suppress(ValueError, IndexError, struct.error):
            found.append(_of_event(content[at + _HEADER : end - _FOOTER]))
        at = end
    return found, at


def _of_event(record: bytes) -> "dict[str, float]":
    step = 0
    numbers: dict[str, float] = {}
    for number, value in _fields(record):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            numbers.update(one for each, inner in _fields(value) if each == 1 for one in _of_value(inner))
    return {"step": step, **numbers} if numbers else {}


def _of_value(record: "bytes | int | float") -> "Iterator[tuple[str, float]]":
    """Yield the tag and the number of a summary, in one of the two ways in which writers put it."""
    tag, found = "", None
    for number, value in _fields(record if isinstance(record, bytes) else b""):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode()
        elif number == 2 and isinstance(value, float):
            found = value
        elif number == 8 and isinstance(value, bytes):
            found = _of_tensor(value)
    if tag and found is not None:
        yield tag, found


def _of_tensor(record: bytes) -> "float | None":
    for number, value in _fields(record):
        if number == 4 and isinstance(value, bytes) and len(value) == 4:
            return float(struct.unpack("<f", value)[0])
        if number == 5:
            if isinstance(value, float):
                return value
            if isinstance(value, bytes) and len(value) == 4:
                return float(struct.unpack("<f", value)[0])
    return None


def _fields(record: bytes) -> "Iterator[tuple[int, int | float | bytes]]":
    """Yield the fields of a message: https://protobuf.dev/programming-guides/encoding/ (read 2026-11-23)."""
    at = 0
    while at < len(record):
        key, at = _varint(record, at)
        kind = key & 7
        value: int | float | bytes
        if kind == _VARINT:
            value, at = _varint(record, at)
        elif kind == _FIXED64:
            value, at = struct.unpack_from("<d", record, at)[0], at + 8
        elif kind == _FIXED32:
            value, at = struct.unpack_from("<f", record, at)[0], at + 4
        elif kind == _BYTES:
            size, at = _varint(record, at)
            value, at = record[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def _varint(record: bytes, at: int) -> "tuple[int, int]":
    value = shift = 0
    while True:
        byte = record[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _named(value: "dict[str, object]") -> "dict[str, float]":
    """Return the numbers of an object, with the step under its name here."""
    numbers = {
        name: number for name, number in value.items() if isinstance(number, (int, float)) and number is not True
    }
    numbers = {name: number for name, number in numbers.items() if number is not False}
    for name in _STEPS:
        if name in numbers:
            return {**numbers, "step": numbers[name]}
    return numbers
