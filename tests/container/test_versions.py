"""The image's versions: pinned, sourced, written once, and the ones that its Dockerfile asks for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "container/Dockerfile").read_text()
VERSIONS = yaml.safe_load((ROOT / "container/versions.yaml").read_text())
# Given by the stage, not by the matrix: what the image was built from.
FROM_THE_STAGE = {"IMAGE_REVISION"}


def test_hadolint_finds_nothing():
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", ROOT / "container/Dockerfile"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("entry", VERSIONS.values(), ids=VERSIONS.keys())
def test_every_version_names_its_source_and_the_day_it_was_read(entry):
    assert entry["source"].startswith(("https://", "Python Package Index, "))
    assert entry["read"].isoformat() >= "2026-01-01"


def test_the_base_image_is_pinned_by_digest():
    assert re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", VERSIONS["base_image"]["value"])


@pytest.mark.parametrize("name", ["efa_installer_sha256", "pytorch_sha256"])
def test_downloads_have_a_checksum(name: str):
    assert re.fullmatch(r"[0-9a-f]{64}", VERSIONS[name]["value"])


def test_the_dockerfile_asks_for_exactly_the_versions_of_the_matrix():
    asked = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE)) - FROM_THE_STAGE
    assert asked == {entry["build_argument"] for entry in VERSIONS.values()}


def test_no_version_has_a_default_in_the_dockerfile():
    assert re.findall(r"^ARG \w+=.*", DOCKERFILE, re.MULTILINE) == []


def test_pytorch_is_the_one_that_a_laptop_runs():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert pins["torch"] == VERSIONS["pytorch"]["value"]


def test_everything_the_dockerfile_copies_is_in_the_build_context():
    ignore = (ROOT / "container/Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    copied = {
        source.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == allowed


def test_a_number_instead_of_text_is_refused(tmp_path: Path):
    path = tmp_path / "versions.yaml"
    path.write_text("cuda: {build_argument: CUDA_VERSION, value: 13.0}\n")
    done = subprocess.run([sys.executable, ROOT / "delivery/build_arguments.py", path], capture_output=True, text=True)
    assert done.returncode == 2
    assert "cuda: build_argument and value must both be text" in done.stderr
