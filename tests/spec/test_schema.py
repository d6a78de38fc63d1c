"""The JSON Schema that editors complete the platform file with."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from tests.synthesis import EXAMPLES
from trainway.cli import app


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    printed = CliRunner().invoke(app, ["schema"])
    assert printed.exit_code == 0
    loaded: dict[str, Any] = json.loads(printed.stdout)
    return loaded


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_satisfy_the_schema(file: Any, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(file.read_text()))


def test_every_key_that_is_not_a_name_is_described(schema: dict[str, Any]) -> None:
    for name, section in {"Platform": schema, **schema["$defs"]}.items():
        for key, value in section.get("properties", {}).items():
            described = "description" in value or "$ref" in value or section.get("description")
            assert described, f"{name}.{key}"


@pytest.mark.parametrize(
    "wrong", [{"region": "us-west-2"}, {"region": 1, "zones": ["usw2-az1"], "node_groups": []}], ids=["missing", "type"]
)
def test_wrong_files_do_not(wrong: dict[str, Any], schema: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(wrong)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("name: first", "name: First"),
        ("us-west-2", "us-west"),
        ("usw2-az2", "us-west-2b"),
        ("count: 1", "count: 1, capacity: {reservation: r-1}"),
    ],
)
def test_what_the_loader_refuses_by_its_form_the_schema_refuses(schema: dict[str, Any], good: str, bad: str) -> None:
    file = EXAMPLES[0].read_text()
    assert good in file
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(file.replace(good, bad)))
