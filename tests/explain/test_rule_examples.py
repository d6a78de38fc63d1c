"""The log in which each rule finds its failure, and a similar one in which it finds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.explain import Evidence, Log, explain
from trainway.spec.facts.files import read_facts

EXAMPLES = {
    name: document
    for file in sorted(Path(__file__).with_name("rule_examples").glob("*.yaml"))
    for name, document in read_facts(file).items()
}


def names(text: str) -> list[str]:
    return [each.name for each in explain(Evidence((Log("posted.log", text),)))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_answers_its_example_first(name: str) -> None:
    assert names(EXAMPLES[name]["example"])[:1] == [name]


@pytest.mark.parametrize("name", [name for name, document in EXAMPLES.items() if "healthy" in document])
def test_a_rule_does_not_answer_a_similar_log(name: str) -> None:
    assert name not in names(EXAMPLES[name]["healthy"])
