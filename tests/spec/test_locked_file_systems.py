"""A deployed file system keeps what FSx cannot change, and a change is refused before a deploy makes an empty one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.synthesis import ROOT
from trainway.cli import app
from trainway.spec.loader import load_platform
from trainway.spec.lock import lock_file
from trainway.spec.problems import SpecError
from trainway.spec.storage.locked_file_systems import locked_lustre

KEY = "arn:aws:kms:us-east-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
EXAMPLE = yaml.safe_load((ROOT / "examples/hyperpod-slurm-p5en.yaml").read_text(encoding="utf-8"))
LUSTRE: dict[str, Any] = {"capacity_tib": 19.2, "throughput_mbps_per_tib": 250, "mirror": False}
BEFORE: dict[str, Any] = {"lustre": LUSTRE, "home": {}}


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """A platform file whose deploy has succeeded."""
    file = tmp_path / "platform.yaml"
    write(file, BEFORE)
    for options in ([], ["--deployed"]):
        assert CliRunner().invoke(app, ["lock", str(file), *options]).exit_code == 0
    return file


def write(file: Path, storage: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(EXAMPLE | {"storage": storage}), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("lustre", LUSTRE | {"efa": True}, ["storage.lustre.efa = true", "created with `efa: false`"]),
        ("lustre", LUSTRE | {"key": KEY}, ["storage.lustre.key", "created with `key: null`"]),
        (
            "lustre",
            {"storage_class": "intelligent-tiering", "mirror": False},
            ["storage.lustre.storage_class", "write `storage_class: ssd`"],
        ),
        ("home", {"key": KEY}, ["storage.home.key", "docs/storage.md"]),
        (
            "home",
            {"highly_available": False},
            ["storage.home.highly_available", "with `highly_available: true`"],
        ),
    ],
)
def test_what_a_file_system_was_created_with_stays(
    deployed: Path, name: str, change: dict[str, Any], says: list[str]
) -> None:
    write(deployed, BEFORE | {name: change})
    with pytest.raises(SpecError) as refused:
        load_platform(deployed)
    for part in says:
        assert part in str(refused.value), refused.value
    lock_file(deployed).unlink()
    load_platform(deployed)  # Right for a platform that is not deployed.


def test_what_fsx_changes_is_taken(deployed: Path) -> None:
    write(deployed, {"lustre": BEFORE["lustre"] | {"capacity_tib": 38.4, "compression": False}, "home": {}})
    assert load_platform(deployed).lock.lustre


def test_a_deploy_that_failed_fixes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    write(file, BEFORE)
    assert CliRunner().invoke(app, ["lock", str(file)]).exit_code == 0
    write(file, BEFORE | {"lustre": BEFORE["lustre"] | {"efa": True}})
    assert load_platform(file).storage.of_jobs.efa


def test_home_directories_that_went_can_come_back_with_another_key(deployed: Path) -> None:
    write(deployed, {"lustre": BEFORE["lustre"]})
    assert CliRunner().invoke(app, ["lock", str(deployed), "--deployed"]).exit_code == 0
    write(deployed, BEFORE | {"home": {"key": KEY}})
    assert load_platform(deployed).lock.home is None


MOVED: dict[str, Any] = {"lustre": LUSTRE | {"generation": 2, "efa": True}, "former_lustre": LUSTRE, "home": {}}


def test_another_file_system_is_asked_for_beside_the_one_in_use(deployed: Path) -> None:
    write(deployed, MOVED)
    platform = load_platform(deployed)
    assert platform.lock.lustre == locked_lustre(platform.storage.former_lustre)
    assert CliRunner().invoke(app, ["lock", str(deployed), "--deployed"]).exit_code == 0
    lock = load_platform(deployed).lock
    assert lock.lustre and lock.former_lustre
    assert (lock.lustre.generation, lock.former_lustre.generation) == (2, 1)
    # Back again, and on without the former one.
    for storage in (
        {"lustre": LUSTRE, "former_lustre": MOVED["lustre"], "home": {}},
        {"lustre": MOVED["lustre"], "home": {}},
    ):
        write(deployed, storage)
        load_platform(deployed)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lustre": LUSTRE | {"generation": 2}}, "write its section as `storage.former_lustre`"),
        ({"lustre": MOVED["lustre"], "former_lustre": LUSTRE | {"generation": 3}}, "no file system of generation 3"),
        ({"former_lustre": LUSTRE}, "write `generation: 2` below `storage.lustre`"),
        ({"former_lustre": LUSTRE | {"generation": 2}}, "remove the section"),
        ({"lustre": MOVED["lustre"], "former_lustre": LUSTRE | {"key": KEY}}, "storage.former_lustre.key"),
        (
            {"lustre": MOVED["lustre"], "former_lustre": LUSTRE | {"capacity_tib": 5.0}},
            "storage.former_lustre.capacity_tib",
        ),
    ],
)
def test_no_other_edit_begins_or_ends_a_file_system(deployed: Path, change: dict[str, Any], says: str) -> None:
    write(deployed, BEFORE | change)
    with pytest.raises(SpecError) as refused:
        load_platform(deployed)
    assert says in str(refused.value), refused.value


def test_what_was_a_file_system_once_is_no_other_one(deployed: Path) -> None:
    for storage in (MOVED, {"lustre": MOVED["lustre"], "home": {}}):
        write(deployed, storage)
        assert CliRunner().invoke(app, ["lock", str(deployed), "--deployed"]).exit_code == 0
    write(deployed, {"lustre": LUSTRE, "former_lustre": MOVED["lustre"], "home": {}})
    with pytest.raises(SpecError) as refused:
        load_platform(deployed)
    assert "write 3 for another one, or 2" in str(refused.value)


def test_the_plan_tells_what_both_file_systems_cost(deployed: Path) -> None:
    write(deployed, MOVED)
    told = CliRunner().invoke(app, ["plan", str(deployed)]).output
    # 19.2 TiB at 250 MB/s per TiB, and no price of it is known in us-east-2.
    by = "that of us-east-1, 0.21 (2022-04-11), and a quarter more"
    price = f"unknown in us-east-2, at most about $5,040 a month ({by})"
    assert f"Jobs use storage.lustre (generation 2), {price}." in told
    assert f"storage.former_lustre (generation 1) stays beside it, {price}, until you remove" in told
