"""Files that people wrote without the rules: the wrong ones are refused at their key, and the good ones are taken."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data_files import read_yaml
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

CASES = read_yaml(Path(__file__).with_name("strangers_files.yaml"))
OURS = [read_yaml(Path(__file__).with_name(f"{name}_mistakes.yaml"))["mistakes"] for name in ("platform", "region")]
DAY = date(2026, 11, 30)
MISSED = {name for name, case in CASES["wrong"].items() if "key" not in case}


def written(case: dict[str, Any], directory: Path) -> Path:
    file = directory / "platform.yaml"
    file.write_text(case.get("text") or yaml.safe_dump(case["file"], sort_keys=False), encoding="utf-8")
    return file


@pytest.mark.parametrize("name", [name for name in CASES["wrong"] if name not in MISSED])
def test_a_wrong_file_is_refused_at_the_key_that_is_wrong(name: str, tmp_path: Path) -> None:
    case = CASES["wrong"][name]
    with pytest.raises(SpecError) as caught:
        load_platform(written(case, tmp_path), today=DAY)
    assert case["key"] in {".".join(map(str, problem.key)) for problem in caught.value.problems}
    assert all(problem.reason and problem.remedy for problem in caught.value.problems)


@pytest.mark.parametrize("name", CASES["good"])
def test_a_good_file_is_taken(name: str, tmp_path: Path) -> None:
    assert load_platform(written(CASES["good"][name], tmp_path), today=DAY).node_groups


def test_of_four_hundred_wrong_files_at_most_two_percent_pass(tmp_path: Path) -> None:
    ours = sum(map(len, OURS))
    assert len(CASES["wrong"]) >= 200 and len(CASES["wrong"]) + ours >= 400 and len(CASES["good"]) >= 40
    assert len(MISSED) / len(CASES["wrong"]) <= 0.02
    for name in MISSED:
        assert load_platform(written(CASES["wrong"][name], tmp_path), today=DAY), "it is refused now: write its key"
