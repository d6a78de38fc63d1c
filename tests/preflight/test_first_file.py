"""What `trainway init` asks a person in a terminal ends in a file that the account takes without an edit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.preflight.account_of_atlas import ACCOUNT, BLOCK, NOON, AtlasAccount, make_account
from tests.test_init import answer
from trainway.cli import app
from trainway.spec.deployment import expiry
from trainway.spec.facts.kubernetes_versions import Support, kubernetes_versions
from trainway.spec.loader import load_platform
from trainway.spec.sections.capacity import CapacityBlock, minute

START, END = NOON + timedelta(days=1), NOON + timedelta(days=8)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def account(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> AtlasAccount:
    """An account with a VPC that is in use, and a block of two nodes from tomorrow on."""
    account = make_account(emulator, tmp_path_factory.mktemp("atlas") / "platform.yaml")
    block = account.reservations()[1] | {
        "State": "scheduled",
        "StartDate": START.isoformat(),
        "EndDate": END.isoformat(),
        "AvailableInstanceCount": 0,
    }
    emulator.hold(capacity_reservations=[block])
    return account


@pytest.fixture(autouse=True)
def supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let EKS support its versions for ever. The emulated account has today's clock, and the block begins tomorrow."""
    facts = kubernetes_versions()
    for_ever = Support(standard_until=date.max, extended_until=date.max)
    versions = facts.eks.model_copy(update={"versions": dict.fromkeys(facts.eks.versions, for_ever)})
    monkeypatch.setattr(expiry, "kubernetes_versions", lambda: facts.model_copy(update={"eks": versions}))


def test_a_block_from_tomorrow_in_a_vpc_of_yours_with_two_teams(account: AtlasAccount, tmp_path: Path) -> None:
    answers = [
        "p5.48xlarge",
        "eks",
        "us-wset-2",  # a typing error
        "us-west-2",
        f"capacity-block:{BLOCK}",
        *("", ""),  # the times of the block, which AWS tells
        "usw2-az3",  # where the block is not
        "",  # where it is
        "lab",
        "",  # as many nodes as it has
        account.ids["vpc"],
        "",  # a free range of the VPC
        "research=1, product=1",
        f"arn:aws:iam::{ACCOUNT}:role/Admin",
    ]
    status, output = answer(tmp_path, answers, account.environment)
    assert status == 0, output
    assert "did you mean us-west-2" in output
    file = tmp_path / "platform.yaml"
    platform = load_platform(file)
    (group,) = platform.node_groups
    assert isinstance(group.capacity, CapacityBlock)
    assert (minute(group.capacity.start), minute(group.capacity.end)) == (minute(START), minute(END))  # type: ignore[arg-type]
    assert (group.count, platform.zone_of(group)) == (2, "usw2-az2")
    assert platform.network.existing and platform.network.existing.vpc_id == account.ids["vpc"]
    assert not any(platform.network.cidr.overlaps(each) for each in platform.network.existing.taken)
    assert [team.name for team in platform.teams] == ["research", "product"]
    checked = CliRunner().invoke(app, ["check", str(file)])
    assert checked.exit_code == 0, checked.output
    account.publish(file)
    ran = CliRunner().invoke(app, ["preflight", str(file), "--json"], env=account.environment)
    found = json.loads(ran.stdout)["findings"]
    assert ran.exit_code == 0, found
    assert [each["what"] for each in found if each["level"] != "note"] == [f"{BLOCK} is scheduled"]


def test_a_block_that_the_account_does_not_have_is_asked_for_again(account: AtlasAccount, tmp_path: Path) -> None:
    answers = [
        *("p5.48xlarge", "eks", "us-west-2"),
        "capacity-block:cr-00000000000000000",
        "on-demand",
        *("", "lab", "1", "", "", ""),
        f"arn:aws:iam::{ACCOUNT}:role/Admin",
    ]
    status, output = answer(tmp_path, answers, account.environment)
    assert status == 0, output
    assert "the account of this shell has none of this name" in output
    # The range of the new VPC is none that the account's others have.
    assert str(load_platform(tmp_path / "platform.yaml").network.cidr) == "10.0.0.0/16"
