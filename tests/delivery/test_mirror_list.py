"""The list of what is mirrored is pinned, sourced and consistent."""

import re
from pathlib import Path

import pytest
import yaml

DOCUMENT = yaml.safe_load((Path(__file__).resolve().parents[2] / "delivery/mirror.yaml").read_text())
ENTRIES = [*DOCUMENT["tools"].values(), *DOCUMENT["images"], *DOCUMENT["charts"]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.get("chart") or entry.get("name") or entry["url"])
def test_every_entry_is_pinned_and_names_its_source_and_date(entry):
    version = entry.get("version") or entry["tag"]
    assert re.fullmatch(r"v?\d+\.\d+\.\d+(-[0-9a-f]{7})?", version)
    assert entry["source"].startswith("https://")
    assert entry["read"].isoformat()


def test_digests_are_sha256():
    digests = [image["digest"] for image in DOCUMENT["images"] if image["digest"]]
    assert digests
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)


def test_every_mirrored_image_is_used_by_a_chart_and_the_other_way_round():
    used = {value["image"] for chart in DOCUMENT["charts"] for value in chart["image_values"]}
    assert used == {image["name"] for image in DOCUMENT["images"]}


def test_a_git_charts_version_carries_its_commit():
    for chart in DOCUMENT["charts"]:
        if "git" in chart:
            assert chart["version"].endswith(chart["git"]["commit"][:7])
