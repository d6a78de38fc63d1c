"""Jobs move to another file system, and back, with one deploy each; the old one stays until the file drops it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator
from tests.changes.edit import ORCHESTRATORS, base
from tests.changes.live import Live
from tests.representatives import with_representatives
from trainway.diff.compare import compare
from trainway.diff.look import report_resource

FIRST, SECOND = "file-system/LustreFileSystem4AFDAE78", r"file-system/Lustre2FileSystem[0-9A-F]{8}"
OLD: dict[str, Any] = base("any", "eks")["storage"]["lustre"]
# On EFA, which FSx cannot change.
NEW: dict[str, Any] = OLD | {"generation": 2, "efa": True}


@pytest.mark.exhaustive
@pytest.mark.parametrize("orchestrator", with_representatives({each: each for each in ORCHESTRATORS}, ("eks",)))
def test_jobs_move_and_the_old_file_system_stays_until_it_is_dropped(
    orchestrator: str, emulator: Emulator, tmp_path: Path
) -> None:
    live = Live(emulator, tmp_path, f"moves-{ORCHESTRATORS.index(orchestrator)}")

    def deploy(allowed: tuple[str, ...] = (), **storage: Any) -> dict[str, str]:
        """Deploy other file systems, and return all that there are by logical ID."""
        outcome = live.edit(base(live.name, orchestrator) | {"storage": storage}, allowed=allowed)
        assert not outcome.refused, outcome
        assert outcome.lost == set(allowed)
        return {name: id for name, id in live.physical_ids().items() if id.startswith("fs-")}

    def refused(**storage: Any) -> str:
        return str(live.edit(base(live.name, orchestrator) | {"storage": storage}).refused)

    there = deploy(lustre=OLD)
    old = there[FIRST]
    assert list(there) == [FIRST]
    assert "another one as docs/storage.md" in refused(lustre=OLD | {"efa": True})

    before = live.templates()
    there = deploy(lustre=NEW, former_lustre=OLD)
    told = words(live, before)
    bound = "at most about $3,600 a month (that of us-east-1, 0.6 (2022-04-11), and a quarter more)"
    price = f"unknown in us-west-2, {bound}"
    assert told["storage.lustre"] == ("created", price)
    assert told["storage.former_lustre"] == (
        "changed in place",
        f"it stays, and you pay for it until you remove storage.former_lustre: {price}",
    )
    (new,) = set(there.values()) - {old}
    assert there[FIRST] == old
    assert new in handed_off(live) and old not in handed_off(live)

    # And back, before anything is lost.
    assert deploy(lustre=OLD, former_lustre=NEW) == there
    assert old in handed_off(live) and new not in handed_off(live)
    assert deploy(lustre=NEW, former_lustre=OLD) == there

    assert "storage.former_lustre" in refused(lustre=OLD)
    assert "storage.former_lustre would be deleted" in refused(lustre=NEW)
    before = live.templates()
    assert set(deploy(lustre=NEW, allowed=("storage.former_lustre",)).values()) == {new}
    lost = ("deleted", "you lose its files, except those that are in S3")
    assert words(live, before)["storage.former_lustre"] == lost
    assert new in handed_off(live)
    # Number 1 was a file system with data, and is no other one now.
    assert "generation 2 already" in refused(lustre=OLD, former_lustre=NEW)


@pytest.mark.exhaustive
def test_jobs_move_to_the_bucket_and_back_to_a_file_system(emulator: Emulator, tmp_path: Path) -> None:
    live = Live(emulator, tmp_path, "bucket-only")

    def deploy(allowed: tuple[str, ...] = (), **storage: Any) -> set[str]:
        """Deploy other storage, and return the logical IDs of the file systems and of what mounts them."""
        outcome = live.edit(base(live.name, "eks") | {"storage": storage}, allowed=allowed)
        assert not outcome.refused, outcome
        assert outcome.lost == set(allowed)
        found = {name for name, id in live.physical_ids().items() if id.startswith("fs-") or "aws-fsx-csi" in id}
        return {re.sub(r"[0-9A-F]{8}$", "", name) for name in found}

    there = deploy(lustre=OLD)
    assert len(there) == 2, "the file system, and the driver by which pods mount it"
    refused = live.edit(base(live.name, "eks") | {"storage": {"lustre": None}}).refused
    assert "write its section as `storage.former_lustre`" in str(refused)

    # Jobs use the bucket. The file system stays until nobody needs its files.
    before = live.templates()
    assert deploy(lustre=None, former_lustre=OLD) == there
    assert words(live, before)["storage.former_lustre"][1].startswith("it stays, and you pay for it")
    before = live.templates()
    assert deploy(("storage.former_lustre",), lustre=None) == set()
    lost = ("deleted", "you lose its files, except those that are in S3")
    assert words(live, before)["storage.former_lustre"] == lost

    before = live.templates()
    assert deploy(lustre=OLD | {"generation": 2})
    assert words(live, before)["storage.lustre"][0] == "created"
    live.destroy()


def words(live: Live, before: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return what `trainway diff` says of each file system from templates that were live to those that are."""
    found = compare(
        *({f"{live.name}-{role}": each for role, each in all.items()} for all in (before, live.templates()))
    )
    told = [report_resource(each, live.platform) for each in found if each.kind == "AWS::FSx::FileSystem"]
    return {each.name: (each.action, each.cost) for each in told}


def handed_off(live: Live) -> list[str]:
    """Return the values that only the deploy knew, of the live platform's hand-off."""
    session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=live.emulator.region)
    ssm = session.client("ssm", endpoint_url=live.emulator.endpoint)
    found: list[str] = json.loads(ssm.get_parameter(Name=f"/trainway/{live.name}/hand-off")["Parameter"]["Value"])[
        "values"
    ]
    return found
