"""The keys of a file as Markdown: a heading and a table for each section of its JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A section of a file: its definition's name, where it is first, for example `node_groups[]`, and its schema."""

    name: str
    path: str
    schema: Schema


def parts_of(schema: Schema, definitions: Schema) -> list[Part]:
    """Return a file and all sections in it, each once, in the order of the file's keys. The file has no name."""
    found: dict[str, Part] = {}

    def visit(schema: Schema, path: str, name: str) -> None:
        if name in found:
            return
        found[name] = Part(name, path, schema)
        for key, value in schema["properties"].items():
            for suffix, each in _sections_in(value, definitions):
                visit(definitions[each], _path(path, key) + suffix, each)

    visit(schema, "", "")
    return list(found.values())


def _sections_in(schema: Schema, definitions: Schema, suffix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of the sections that a key can have, each with [] below a list and .NAME below a mapping."""
    if name := _name(schema):
        if "properties" in definitions[name]:
            yield suffix, name
        return
    for each in _alternatives(schema):
        yield from _sections_in(each, definitions, suffix)
    if isinstance(schema.get("items"), dict):
        yield from _sections_in(schema["items"], definitions, f"{suffix}[]")
    for each in _values(schema):
        yield from _sections_in(each, definitions, f"{suffix}.NAME")


def _path(section: str, key: str) -> str:
    """Return the path of a key in a section, which is empty for the file itself."""
    return f"{section}.{key}" if section else key


def _alternatives(schema: Schema) -> list[Schema]:
    """Return the schemas in `anyOf` and `oneOf`."""
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _values(schema: Schema) -> list[Schema]:
    """Return the schemas of the values of a mapping."""
    more = schema.get("additionalProperties")
    return [*schema.get("patternProperties", {}).values(), *([more] if isinstance(more, dict) else [])]


def type_text(schema: Schema, definitions: Schema, headings: dict[str, str]) -> str:
    """Return the type of a key in words, with its allowed values. `headings` has those of sections by name."""
    if name := _name(schema):
        if "enum" in definitions[name]:
            return _choices(definitions[name]["enum"])
        return f"[section](#{anchor(headings[name])})"
    if both := _alternatives(schema):
        texts = [type_text(each, definitions, headings) for each in both if each.get("type") != "null"]
        return ", or ".join(dict.fromkeys(texts))
    if "enum" in schema or "const" in schema:
        return _choices(schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "array":
            items = schema.get("items") or {}
            return f"list{_range(schema, 'minItems', 'maxItems')} of {type_text(items, definitions, headings)}"
        case "object":
            kinds = [type_text(each, definitions, headings) for each in _values(schema)]
            return f"mapping of names to {', or '.join(dict.fromkeys(kinds)) or 'values'}"
        case "integer":
            return f"whole number{_range(schema, 'minimum', 'maximum')}"
        case "number":
            return f"number{_range(schema, 'minimum', 'maximum')}"
        case "boolean":
            return "`true` or `false`"
        case "string":
            long = {key: schema[key] for key in ("minLength", "maxLength") if schema.get(key, 1) != 1}
            return f"text{_range(long, 'minLength', 'maxLength', ' characters')}"
        case _:
            return "any value"


def _choices(values: list[Any]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _range(schema: Schema, low: str, high: str, unit: str = "") -> str:
    """Return the bounds of a value in words, with a space before them, or nothing."""
    least, most = schema.get(low), schema.get(high)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    words = []
    if least is not None and most is not None:
        words.append(f"{least:,} to {most:,}{unit}" if least != most else f"{least:,}{unit}")
    elif least is not None:
        words.append(f"{least:,}{unit} or more")
    elif most is not None:
        words.append(f"at most {most:,}{unit}")
    if above is not None:
        words.append(f"more than {above:,}")
    if below is not None:
        words.append(f"less than {below:,}")
    return f" ({', '.join(words)})" if words else ""


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _default(key: str, schema: Schema, part: Part) -> str:
    if key in part.schema.get("required", ()):
        return "required"
    default = schema.get("default")
    # For other defaults, the description says what happens without the key.
    return "" if default in (None, [], {}) or isinstance(default, dict) else f"`{json.dumps(default)}`"


def cell(text: str) -> str:
    """Return a text as the cell of a table, with links to the pages of docs/ that it names."""
    linked = re.sub(r"(?<![\w/-])docs/([\w-]+\.md)", r"[\1](../\1)", " ".join(text.split()))
    return re.sub(r"<(?=\w)", "&lt;", linked.replace("|", "\\|"))


def intro_of(schema: Schema) -> str:
    """Return the first paragraph of a section's description, without the key that it may begin with."""
    first = re.sub(
        r"^(The section )?`\w+`( of a job file)?: ", "", str(schema.get("description", "")).partition("\n\n")[0]
    )
    return cell(first[:1].upper() + first[1:])


Column = tuple[str, Callable[[str], str]]


def tables(parts: list[Part], definitions: Schema, headings: dict[str, str], column: Column | None = None) -> str:
    """Return a heading, a paragraph, and a table for each section.

    `headings` has those of sections, of these and of others that these refer to, by the names of their definitions.
    `column` is the title of one more column, and what it has for a key by its whole path.
    """
    return "\n".join(_table(part, definitions, headings, column) for part in parts)


def _table(part: Part, definitions: Schema, headings: dict[str, str], column: Column | None) -> str:
    lines = [f"## {headings[part.name]}", "", intro_of(part.schema), ""]
    more, rule = (f" {column[0]} |", "---|") if column else ("", "")
    lines += [f"| Key | Type | Default |{more} Meaning |", f"|---|---|---|{rule}---|"]
    for key, schema in part.schema["properties"].items():
        said = schema.get("description") or _said_of_section(schema, definitions)
        extra = f" {column[1](_path(part.path, key))} |" if column else ""
        kind = type_text(schema, definitions, headings)
        lines.append(f"| `{key}` | {kind} | {_default(key, schema, part)} |{extra} {cell(said)} |")
    return "\n".join([*lines, ""])


def _said_of_section(schema: Schema, definitions: Schema) -> str:
    name = _name(schema)
    return intro_of(definitions[name]) if name else ""
