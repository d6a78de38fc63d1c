"""A file of a person's is read as YAML 1.2, and what two programs would read as two things is an error."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.hypothesis_profiles import examples
from tests.spec.test_platform_mistakes import GOOD, check, write
from trainway.spec.document import read_document
from trainway.spec.problems import SpecError
from trainway.spec.strict_yaml import MOST_CHARACTERS, MOST_LEVELS, UnreadableError, dump, read

ROOT = Path(__file__).parents[2]

READ: dict[str, Any] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "False": False,
    "0": 0,
    "-12": -12,
    "+7": 7,
    "0o17": 15,
    "0x1F": 31,
    "1e-4": 1e-4,
    ".5": 0.5,
    "1.": 1.0,
    "-1.5E+3": -1500.0,
    "1.35": 1.35,
    "y": "y",
    "2026-11-23": "2026-11-23",
    "1.35.2": "1.35.2",
    "=": "=",
    "'no'": "no",
    '"010"': "010",
    "|\n  1:30\n  no\n": "1:30\nno\n",
    "[1e3, x, [~]]": [1000.0, "x", [None]],
}
TWO_THINGS = {
    "no": "write false",
    "Off": "write false",
    "yes": "write true",
    "ON": "write true",
    "1:30": "write the number",
    "-1:30:00": "write the number",
    "1:30.5": "write the number",
    "010": "without leading zeros",
    "-08": "without leading zeros",
    "0b11": "to the base 10",
    "1_000": "without `_`",
    "0x_ff": "without `_`",
    ".inf": "the number that is meant",
    "-.INF": "the number that is meant",
    ".NaN": "the number that is meant",
    "1e999": "the number that is meant",
    "9" * 5000: "the number that is meant",
}
UNREADABLE = {
    "an alias": ("a: &x 1\nb: *x\n", (1, 4), "is an anchor"),
    "an alias of nothing": ("b: *x\n", (1, 4), "is an anchor"),
    "an anchor in itself": ("a: &x [*x]\n", (1, 4), "is an anchor"),
    "a tag of YAML's": ("a: !!bool maybe\n", (1, 4), "the tag"),
    "a tag of Python's": ("- !!python/object:os.system x\n", (1, 3), "the tag"),
    "a tag of a mapping": ("a: !!set {b}\n", (1, 4), "the tag"),
    "a tag of one's own": ("a: !x b\n", (1, 4), "the tag !x"),
    "two documents": ("a: 1\n---\nb: 2\n", (2, 1), "not valid YAML"),
    "a control character": ("a: \0\n", (1, 1), "not valid YAML"),
}


@pytest.mark.parametrize("text", READ)
def test_a_value_is_that_of_yaml_1_2(text: str) -> None:
    reading = read(f"key: {text}")
    assert not reading.faults
    assert reading.data == {"key": READ[text]}
    assert type(reading.data["key"]) is type(READ[text])


@pytest.mark.parametrize("text", TWO_THINGS)
def test_what_can_be_two_things_is_an_error_with_its_place(text: str) -> None:
    for file, position, key in (
        (f"key: {text}", (1, 6), ("key",)),
        (f"key:\n  - 1\n  - {text}\n", (3, 5), ("key", 1)),
    ):
        (fault,) = read(file).faults
        assert (fault.position, fault.key) == (position, key)
        assert TWO_THINGS[text] in fault.remedy


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_no_file_may_have_ends_the_reading(case: str) -> None:
    text, position, reason = UNREADABLE[case]
    with pytest.raises(UnreadableError, match=reason) as raised:
        read(text)
    assert raised.value.fault.position == position


def test_a_small_file_cannot_stand_for_a_billion_values() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{former}'] * 10)}]" for former, name in pairwise("abcdefghi")]
    with pytest.raises(UnreadableError, match="is an anchor"):
        read("\n".join(lines))


@pytest.mark.parametrize("brackets", ["[]", ("{a: ", "}")], ids=["lists", "mappings"])
def test_depth_and_size_have_a_limit(brackets: tuple[str, str]) -> None:
    opening, closing = brackets
    deepest = MOST_LEVELS - 1
    assert not read("a: " + opening * deepest + closing * deepest).faults
    for levels in (MOST_LEVELS, 100_000):
        with pytest.raises(UnreadableError, match="levels deep"):
            read("a: " + opening * levels + closing * levels)
    with pytest.raises(UnreadableError, match="characters"):
        read(f"a: {'x' * MOST_CHARACTERS}")


@pytest.mark.parametrize(
    ("text", "reason", "key"),
    [
        ("? [a, b]\n: 1\n", "a key is not text", ()),
        ("a:\n  ? {b: c}\n  : 1\n", "a key is not text", ("a",)),
        ("a: 1\nb: 2\na: 3\n", "the first is on line 1", ("a",)),
        ("a: {<<: {b: 1}}\n", "merges the keys", ("a", "<<")),
        ("a: {no: 1}\n", "and others as text", ("a", "no")),
    ],
)
def test_a_key_is_text_and_stands_once(text: str, reason: str, key: tuple[str, ...]) -> None:
    (fault,) = read(text).faults
    assert reason in fault.reason
    assert fault.key == key


def test_a_number_as_key_is_its_text() -> None:
    assert read("8: x\n1.5: y\n'no': z\n").data == {"8": "x", "1.5": "y", "no": "z"}


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text("name: no\nzones: [010, 1:30]\n")
    with pytest.raises(SpecError) as raised:
        read_document(file)
    assert [(each.line, each.column) for each in raised.value.problems] == [(1, 7), (2, 9), (2, 14)]


@pytest.mark.parametrize("change", ["count: 010", "count: .inf", "count: 1_6", f"count: {'9' * 5000}", "count: *all"])
def test_check_says_so_in_a_sentence(change: str, tmp_path: Path) -> None:
    assert "count: 4" in GOOD
    checked = check(write(tmp_path, GOOD.replace("count: 4", change, 1)))
    assert checked.returncode == 2
    assert "Traceback" not in checked.stderr
    assert "fix:" in checked.stderr


@pytest.mark.parametrize("name", ["platform.yaml", *sorted(map(str, Path("examples").rglob("*.yaml")))])
def test_examples_are_the_same_to_a_reader_of_yaml_1_1(name: str) -> None:
    """The job reads its file with PyYAML, where the launcher's reader is not installed."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, list) else value

    text = (ROOT / name).read_text(encoding="utf-8")
    assert plain(yaml.safe_load(text)) == read(text).data


SHOWN = st.characters(exclude_categories=("Cc", "Cs"), include_characters="\t\n\r\x85")
TEXTS = st.text(SHOWN, max_size=12) | st.sampled_from([*READ, *TWO_THINGS, "<<", "&a", "*a", "!t", "- a", "a: b", "#"])
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def test_what_stands_in_two_places_is_written_twice() -> None:
    shared = ["a", "b"]
    assert read(dump({"one": shared, "other": shared})).data == {"one": shared, "other": shared}


@examples(3, at_night=10)
@example("0:0")
@example("1:30.5")
@given(PLAIN)
def test_what_is_written_is_read_again(data: Any) -> None:
    reading = read(dump(data))
    assert not reading.faults
    assert reading.data == data


@pytest.mark.parametrize("escape", [r"\0", r"\x1b", r"\x7f", r"\u009b"])
def test_text_has_no_control_characters(escape: str) -> None:
    (fault,) = read(f'a: ["x", "{escape}"]').faults
    assert fault.key == ("a", 1)
    assert not read(r'a: "\t\n\r é \U0001f600"').faults
