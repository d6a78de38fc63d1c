"""`trainway instances` shows a thousand types on one screen, and each of them by name."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from trainway.cli import app
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.offerings import load_offerings

CATALOGUE = load_catalogue()


def listed(*words: str) -> list[str]:
    done = CliRunner().invoke(app, ["instances", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_types_with_accelerators_have_a_line_each_and_the_others_one_per_family() -> None:
    lines = listed()
    firsts = [line.split()[0] for line in lines if line]
    assert {name for name in CATALOGUE if CATALOGUE[name].accelerator} <= set(firsts)
    assert {"m7i", "c7a", "r8g"} <= set(firsts) and "m7i.large" not in firsts
    (family,) = [line.split() for line in lines if line.startswith("m7i ")]
    assert family[1:4] == ["11", "2-192", "8-768"]
    assert len(lines) < 200 and max(map(len, lines)) < 120


def test_a_family_is_listed_size_by_size_and_a_type_by_itself() -> None:
    firsts = [line.split()[0] for line in listed("m7i", "g5.xlarge")[1:]]
    assert firsts[:2] == ["m7i.large", "m7i.xlarge"] and firsts[-2:] == ["m7i.metal-48xl", "g5.xlarge"]
    assert "none (Arm)" in listed("p6e-gb200.36xlarge")[1]
    assert listed("m8g.large")[1].endswith("EKS, HyperPod")


def test_types_of_a_region_have_their_zones() -> None:
    zones = {line.split()[0]: line for line in listed("p5en", "p5e", "trn2", "--in", "us-west-2")[1:]}
    assert zones.keys() == {"p5en.48xlarge", "p5e.48xlarge"}
    assert zones["p5e.48xlarge"].endswith("  usw2-az3")
    everywhere = json.loads("".join(listed("--in", "us-west-2", "--json")))
    offered = {name for name in CATALOGUE if load_offerings().zones_with(name, "us-west-2")}
    assert {each["name"] for each in everywhere} == offered


def test_types_of_hyperpod_are_the_ones_with_a_name_there() -> None:
    documents = json.loads("".join(listed("--hyperpod", "--json")))
    assert {each["name"] for each in documents} == {name for name in CATALOGUE if CATALOGUE[name].hyperpod_name}
    assert listed("trn1.2xlarge", "--hyperpod") == ["no such types"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["m7q"], "did you mean m7i"),
        (["p5.48xlrge"], "did you mean p5.48xlarge"),
        (["trn3"], "AWS has published its chips"),
        (["--in", "us-wset-2"], "name one of us-west-2"),
        (["--in", "mx-central-1"], "the zones of this Region are not known"),
    ],
)
def test_another_word_is_refused_with_what_was_meant(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        listed(*words)
