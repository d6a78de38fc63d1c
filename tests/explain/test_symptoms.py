"""The command `trainway explain` names the causes of failures that users describe by their symptoms.

The threads were found by what users see ("pods never start", "training stops after an hour"), and not by messages. The
logs are reconstructions: each message is what its program prints, and hosts, times, paths, and numbers are made up.
`right` lists the rules that name the cause of `verdict`. With `unknown`, quoting the line of `says` is an answer, too.

The directory aside/ has the failures that were collected after nearly all rules were written, and that the author of a
rule has not read. He reads the directory read/ only. Each file has the failures of one topic.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from trainway.explain import Confidence, Evidence, Log, explain
from trainway.explain.suspects import suspect_line
from trainway.spec.facts.files import read_facts

HERE = Path(__file__).parent / "symptoms"
# Shares of the answers: at least right, and at most wrong, of which some said that they are certain.
BOUNDS = {"read": (0.96, 0.011), "aside": (0.68, 0.12)}
MOST_ACCUSED = 0.009


class Symptom(BaseModel):
    """The log of a failure, and the rules that name its cause."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    found_by: str
    right: tuple[str, ...]
    verdict: str
    log: str
    says: str = ""


@cache
def symptoms(part: str) -> dict[str, Symptom]:
    """Return the failures of a directory, by the name of the thread."""
    found = [each for file in sorted((HERE / part).glob("*.yaml")) for each in read_facts(file).items()]
    return {name: Symptom.model_validate(document) for name, document in found}


def judge(symptom: Symptom) -> str:
    """Return the verdict on the first finding: right, unknown, wrong, or certain and wrong."""
    evidence = Evidence((Log("posted.log", symptom.log),))
    findings = explain(evidence)
    first = findings[0] if findings else None
    if first is None or first.confidence is Confidence.UNKNOWN:
        quote = first.quote if first else suspect_line(evidence)
        quoted = "unknown" in symptom.right and quote is not None and symptom.says in quote.text
        return "right" if quoted else "unknown"
    if first.name in symptom.right:
        return "right"
    return "certain and wrong" if first.confidence is Confidence.CERTAIN else "wrong"


@pytest.mark.parametrize("part", BOUNDS)
def test_failures_that_users_searched_for_are_explained(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged = {name: judge(symptom) for name, symptom in symptoms(part).items()}
    counts = Counter(judged.values())
    told = ", ".join(f"{word} {count} ({count / len(judged):.0%})" for word, count in sorted(counts.items()))
    with capsys.disabled():
        print(f"\n{len(judged)} failures found by symptoms, {part}: {told}")
    least_right, most_wrong = BOUNDS[part]
    # The names of the part that was set aside are not shown, because whoever sees them would look at them.
    missed = {name: word for name, word in judged.items() if word != "right"} if part == "read" else told
    assert counts["right"] >= least_right * len(judged), missed
    assert counts["wrong"] + counts["certain and wrong"] <= most_wrong * len(judged), missed


def test_logs_with_ugly_lines_of_runs_that_went_well_are_not_accused() -> None:
    logs = [each["log"] for file in (HERE / "healthy").glob("*.yaml") for each in read_facts(file).values()]
    findings = [explain(Evidence((Log("posted.log", log),))) for log in logs]
    accused = sum(any(not each.is_hint for each in found) for found in findings)
    assert len(logs) >= 280
    assert accused <= MOST_ACCUSED * len(logs)


def test_there_are_enough_and_each_names_its_source() -> None:
    every = [symptom for part in BOUNDS for symptom in symptoms(part).values()]
    sources = [symptom.source for symptom in every]
    assert len(every) >= 680 and len(set(sources)) == len(sources)
    assert len(symptoms("aside")) >= 110
    assert all(symptom.says or "unknown" not in symptom.right for symptom in every)
