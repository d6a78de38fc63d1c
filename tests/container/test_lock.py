"""The lists of what add-ons require: made from what uv finds, whole, and beside what the job is pinned to."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from trainway.spec.loader import load_versions
from trainway.spec.versions import REQUIREMENTS, requirements_of

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("lock", ROOT / "container/lock.py")
assert spec is not None and spec.loader is not None
lock = importlib.util.module_from_spec(spec)
sys.modules["lock"] = lock
spec.loader.exec_module(lock)

PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().lower().splitlines() if "==" in line)
LISTS = sorted(REQUIREMENTS.iterdir())


def package(version: str, *checksums: str):
    return lock.Package(version, checksums)


def pins(file: Path) -> dict[str, str]:
    """The versions of a list by name."""
    return dict(re.findall(r"^(\S+)==(\S+) \\$", file.read_text(), re.MULTILINE))


def test_there_is_a_list_for_every_release_and_no_other():
    versions = load_versions()
    names = {requirements_of("transformer-engine", engine.version) for engine in versions.transformer_engine}
    names |= {requirements_of("nemo", nemo.version) for nemo in versions.nemo}
    assert {file.name for file in LISTS} == names


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.name)
def test_every_package_of_a_list_has_a_version_and_a_checksum(file: Path):
    entries = file.read_text().replace("\\\n", " ").splitlines()[1:]
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", entry), entry


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.name)
def test_the_job_keeps_its_versions_beside_an_add_on(file: Path):
    locked = pins(file)
    both = locked.keys() & PINS.keys()
    assert {"numpy", "pydantic"} <= both
    assert {name for name in both if locked[name] != PINS[name]} == lock.RELEASED


def test_add_ons_have_what_they_share_in_one_version():
    first, second = map(pins, LISTS)
    both = first.keys() & second.keys()
    assert "einops" in both
    assert {name for name in both if first[name] != second[name]} == set()


def test_neither_pytorch_nor_what_the_matrix_has_a_checksum_of_is_in_a_list():
    named = {name for file in LISTS for name in pins(file)}
    assert not named & {"torch", "transformer-engine", "transformer-engine-cu13", "transformer-engine-torch"}


def test_a_lock_file_is_read_by_names_versions_and_wheels():
    wheels = [{"hashes": {"sha256": "b"}}, {"hashes": {"sha256": "a"}}]
    read = lock.parsed({"packages": [{"name": "x", "version": "1", "wheels": wheels}, {"name": "y", "version": "2"}]})
    assert read == {"x": package("1", "a", "b"), "y": package("2")}


def test_what_comes_with_pytorch_is_left_to_it():
    one, two = {"x": package("1", "a"), "cuda": package("1", "b")}, {"x": package("1", "a"), "cuda": package("2", "c")}
    assert lock.common([one, two], {"cuda"}) == {"x": package("1", "a")}


def test_a_package_that_nothing_brings_must_be_the_same_for_every_combination():
    with pytest.raises(ValueError, match="differs between combinations: x"):
        lock.common([{"x": package("1", "a")}, {"x": package("2", "b")}], {"cuda"})


def test_a_package_without_a_wheel_is_refused():
    with pytest.raises(ValueError, match="no wheel: x"):
        lock.common([{"x": package("1")}], ())


def test_a_list_is_what_pip_takes():
    assert lock.text({"x": package("1", "a", "b")}).splitlines()[1:] == [
        "x==1 \\",
        "    --hash=sha256:a \\",
        "    --hash=sha256:b",
    ]


def test_what_is_resolved_beside_the_job_has_its_versions_less_what_an_add_on_cannot_take():
    required, kept = lock.job()
    assert "tensorboard" in required
    assert f"numpy=={PINS['numpy']}" in kept
    assert not [pin for pin in kept if pin.startswith(("torch==", "protobuf=="))]
