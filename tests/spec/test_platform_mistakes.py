"""A wrong platform file is told everything that is wrong with it, at once, and never a traceback."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from tests.command_line import Completed, run_trainway
from tests.data_files import read_yaml
from tests.known_day import ON_KNOWN_DAY
from tests.representatives import with_representatives
from tests.synthesis import ROOT
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

CASES = read_yaml(Path(__file__).with_name("platform_mistakes.yaml"))
MIRROR = read_yaml(ROOT / "delivery" / "mirror.yaml")
GOOD: str = CASES["good"]


def test_the_good_file_is_good(tmp_path: Path) -> None:
    assert load_platform(write(tmp_path, GOOD)).name == "atlas"


@pytest.mark.parametrize("mistake", CASES["mistakes"])
def test_mistake_is_explained(mistake: str, tmp_path: Path) -> None:
    case = CASES["mistakes"][mistake]
    assert case["replace"] in GOOD
    with pytest.raises(SpecError) as caught:
        load_platform(write(tmp_path, GOOD.replace(case["replace"], case["by"], 1)))
    message = str(caught.value)
    for part in case["says"]:
        assert part in message
    assert str(tmp_path / "platform.yaml") in message


def test_capacity_that_is_over_is_told_from_the_next_day_on(tmp_path: Path) -> None:
    times = "start: '2026-01-01T11:30Z', end: '2026-01-08T11:30Z'"
    block = f"count: 16, capacity: {{capacity_block: cr-0123456789abcdef0, {times}}}"
    file = write(tmp_path, GOOD.replace("count: 4, max_count: 16", block))
    assert load_platform(file, today=date(2026, 1, 8)).name == "atlas"
    with pytest.raises(SpecError, match=r"node_groups\[0\].capacity.end") as caught:
        load_platform(file, today=date(2026, 1, 9))
    assert "the capacity ended at 2026-01-08T11:30Z" in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = (
        GOOD.replace("usw2-az1", "use1-az1")
        .replace("max_count", "max_cuont")
        .replace("p5.48xlarge,", "p5.48xlrge,")
        .replace("9.6", "5.0")
        .replace("region: us-west-2", "region: us-west-2\ncolour: blue")
    )
    with pytest.raises(SpecError) as caught:
        load_platform(write(tmp_path, text))
    keys = {problem.key for problem in caught.value.problems}
    assert keys >= {
        ("colour",),
        ("zones", 1),
        ("node_groups", 0, "max_cuont"),
        ("node_groups", 0, "instance_type"),
        ("storage", "lustre", "capacity_tib"),
    }
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)


NOT_MAPPINGS = {
    "empty": "",
    "scalar": "just a word",
    "list": "- a\n- list\n",
    "anchor in itself": "a: &x [*x]\n",
    "two colons": "a: b: c",
    "tab": "\tname: x",
    "tag": "name: !!python/object:os.system x",
}


# A document of another kind, one that YAML cannot read, and one that it must not construct.
@pytest.mark.parametrize("content", with_representatives(NOT_MAPPINGS, ("list", "anchor in itself", "tab", "tag")))
def test_no_file_makes_a_traceback(content: str, tmp_path: Path) -> None:
    checked = check(write(tmp_path, NOT_MAPPINGS[content]))
    assert checked.returncode == 2
    assert "Traceback" not in checked.stderr
    assert "why:" in checked.stderr


def test_the_problems_are_told_as_json(tmp_path: Path) -> None:
    wrong = write(tmp_path, GOOD.replace("max_count", "max_cuont").replace("usw2-az1", "use1-az1"))
    told = check(wrong, "--json")
    assert (told.returncode, told.stderr) == (2, "")
    document = json.loads(told.stdout)
    keys = [each["key"] for each in document["problems"]]
    assert document["file"] == str(wrong) and "zones[1]" in keys and "node_groups[0].max_cuont" in keys
    zone = document["problems"][keys.index("zones[1]")]
    assert zone["value"] == '"use1-az1"' and zone["line"] > 1 and zone["reason"] and zone["remedy"]
    assert document["problems"][keys.index("node_groups[0].max_cuont")]["rule"] is None
    good = check(write(tmp_path, GOOD), "--json")
    assert good.returncode == 0 and json.loads(good.stdout)["problems"] == []


def test_check_says_what_nobody_verifies_of_a_base_that_stays(tmp_path: Path) -> None:
    base = f"nvcr.io/nvidia/pytorch:26.10-py3@sha256:{64 * '0'}"
    written = write(tmp_path, f"{GOOD}image: {{base: '{base}', base_packages: kept}}\n")
    done = check(written)
    assert done.returncode == 0, done.stderr
    first, *notes = done.stdout.splitlines()
    assert "no problems" in first and all(line.startswith("not verified: image.base_packages: ") for line in notes)
    assert "PyTorch, CUDA, and NCCL are those of nvcr.io/nvidia/pytorch:26.10-py3" in notes[0]


def test_check_ends_with_status_2_and_says_so_on_stderr(tmp_path: Path) -> None:
    checked = check(write(tmp_path, GOOD.replace("p5.48xlarge,", "p5.48xlrge,")))
    assert (checked.returncode, checked.stdout) == (2, "")
    assert "did you mean p5.48xlarge" in checked.stderr
    assert checked.stderr.rstrip().endswith("nothing was changed.")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    checked = check(tmp_path / "absent.yaml")
    assert checked.returncode == 2
    assert "there is no such file" in checked.stderr


def check(file: Path, *options: str) -> Completed:
    return run_trainway("check", str(file), *ON_KNOWN_DAY, *options, directory=ROOT)


@pytest.mark.parametrize("namespace", sorted({chart["namespace"] for chart in MIRROR["charts"]}))
def test_no_team_is_called_as_the_namespace_of_a_chart(namespace: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cluster's own"):
        load_platform(write(tmp_path, GOOD.replace("name: research", f"name: {namespace}", 1)))


def write(directory: Path, text: str) -> Path:
    file = directory / "platform.yaml"
    file.write_text(text, encoding="utf-8")
    return file
