"""What is deployed stays where it is: the lock beside a platform file, and the addresses that follow from both."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.hypothesis_profiles import examples
from trainway.cli import app
from trainway.spec.deployment.next_lock import deployed_lock, next_lock
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_lock, load_platform
from trainway.spec.lock import Lock, contradictions, lock_file, lock_text
from trainway.spec.network.addressing import AddressesDoNotFit, plan_addresses
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError

CATALOGUE = load_catalogue()
ZONES = ["usw2-az1", "usw2-az2", "usw2-az3"]
NAMES = ["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj", "kk", "ll"]


def platform(*names: str, lock: Lock | None = None, **changes: Any) -> Platform:
    """A platform with these node groups, each as `name`, `name:max_count`, or `name:max_count:zone`."""
    groups = []
    for each in names:
        name, most, zone = (each + "::").split(":")[:3]
        group = {"name": name, "instance_type": "p5.48xlarge", "count": 0, "max_count": int(most or 4)}
        groups.append(group | ({"zone": zone} if zone else {}))
    values = {"region": "us-west-2", "zones": ZONES[:2], "node_groups": groups} | changes
    return Platform.model_validate(values).with_lock(lock or Lock())


def ranges(platform: Platform) -> dict[str, str]:
    return {subnet.name: str(subnet.cidr) for subnet in plan_addresses(platform, CATALOGUE).subnets}


def deployed(platform: Platform) -> Lock:
    """The lock once the platform is deployed."""
    return deployed_lock(platform.with_lock(next_lock(platform, CATALOGUE)), CATALOGUE)


BEFORE = platform("aa", "bb", "cc")


@pytest.mark.parametrize(
    ("after", "moved"),
    [
        (("aa", "bb"), {"nodes-cc"}),
        (("aa", "cc"), {"nodes-bb"}),
        (("bb", "cc"), {"nodes-aa"}),
        (("cc", "aa", "bb"), set()),
        (("aa", "dd", "cc"), {"nodes-bb", "nodes-dd"}),
        (("dd", "aa", "bb", "cc"), {"nodes-dd"}),
        (("aa:16", "bb", "cc"), set()),
    ],
    ids=["remove last", "remove middle", "remove first", "reorder", "rename", "add first", "grow"],
)
def test_an_edit_moves_no_subnet_but_those_it_names(after: tuple[str, ...], moved: set[str]) -> None:
    was = ranges(BEFORE)
    now = ranges(platform(*after, lock=deployed(BEFORE)))
    assert {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)} == moved
    assert not {now[name] for name in now.keys() - was.keys()} & set(was.values()), "what leaves is still there"


def test_a_range_is_free_again_once_its_subnet_is_gone() -> None:
    gone = deployed(BEFORE).subnets["nodes-bb"].cidr
    smaller = platform("aa", "cc", lock=deployed(BEFORE))
    during = next_lock(smaller, CATALOGUE)
    assert during.leaving == ("nodes-bb",)
    assert ranges(platform("aa", "cc", "dd", lock=during))["nodes-dd"] != str(gone)
    after = deployed_lock(smaller.with_lock(during), CATALOGUE)
    assert "nodes-bb" not in after.subnets and after.leaving == ()
    assert ranges(platform("aa", "cc", "dd", lock=after))["nodes-dd"] == str(gone)


def test_storage_and_the_zones_stay_when_the_order_changes() -> None:
    lock = deployed(platform("aa::usw2-az1", "bb::usw2-az2"))
    after = platform("bb::usw2-az2", "aa::usw2-az1", lock=lock, zones=["usw2-az3", "usw2-az2", "usw2-az1"])
    assert after.storage_zone == "usw2-az1"
    zones = {subnet.name: subnet.zone for subnet in plan_addresses(after, CATALOGUE).subnets}
    assert [zones[f"cluster-{number}"] for number in range(3)] == ["usw2-az1", "usw2-az2", "usw2-az3"]


def test_a_group_that_was_too_large_keeps_its_own_range_when_it_shrinks() -> None:
    lock = deployed(platform("aa", "bb:1000"))
    plan = plan_addresses(platform("bb:4", "aa", lock=lock), CATALOGUE)
    assert {subnet.name: str(subnet.cidr) for subnet in plan.subnets}["nodes-bb"] == "100.65.0.0/16"
    assert [str(cidr) for cidr in plan.added_cidrs] == ["100.65.0.0/16"]


EDITS = st.lists(
    st.tuples(
        # What the file has after the edit, and whether the deploy of it succeeds.
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True),
        st.sampled_from(["4", "90", "1000"]),
        st.permutations(ZONES).map(lambda zones: zones[:2]),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@examples(2, at_night=5)
@given(EDITS)
def test_a_subnet_has_one_range_from_its_arrival_to_its_departure(
    edits: list[tuple[list[str], str, list[str], bool]],
) -> None:
    """No two subnets overlap, those that leave with the deploy that runs counted."""
    lock = Lock()
    for names, most, zones, succeeds in edits:
        wanted = platform(*(f"{name}:{most}:{zones[0]}" for name in names), lock=lock, zones=zones)
        try:
            lock, before = next_lock(wanted, CATALOGUE), lock
        except AddressesDoNotFit:
            continue
        assert next_lock(wanted.with_lock(lock), CATALOGUE) == lock, "the second time nothing is new"
        assert all(lock.subnets[name].cidr == subnet.cidr for name, subnet in before.subnets.items())
        assert list(contradictions(lock)) == []
        assert {f"nodes-{name}" for name in names} <= lock.subnets.keys() - set(lock.leaving)
        both = [*lock.subnets.values()]
        assert not any(one.cidr.overlaps(other.cidr) for one, other in combinations(both, 2))
        assert ranges(wanted) == ranges(wanted.with_lock(lock)), "a synthesis without the new lock gives the same"
        if succeeds:
            lock = deployed_lock(wanted.with_lock(lock), CATALOGUE)
            assert lock.subnets.keys() == {subnet.name for subnet in plan_addresses(wanted, CATALOGUE).subnets}


@examples(2)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True), st.booleans())
def test_a_lock_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, names: list[str], leaves: bool) -> None:
    lock = next_lock(platform(*names), CATALOGUE)
    lock = next_lock(platform(*names[:1], lock=lock), CATALOGUE) if leaves else lock
    file = tmp_path_factory.mktemp("locks") / "platform.lock.yaml"
    file.write_text(lock_text(lock))
    assert load_lock(file) == lock


FILE = """\
name: atlas
region: us-west-2
zones: [usw2-az1, usw2-az2]
node_groups:
  - {name: aa, instance_type: g5.8xlarge, count: 1, max_count: 4}
  - {name: bb, instance_type: g5.8xlarge, count: 1, max_count: 4}
kubernetes:
  admins: [arn:aws:iam::111122223333:role/Admin]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A platform file whose lock is written."""
    path = tmp_path / "platform.yaml"
    path.write_text(FILE)
    assert CliRunner().invoke(app, ["lock", str(path)]).exit_code == 0
    return path


def test_the_command_records_what_comes_and_frees_what_went(file: Path) -> None:
    def ran(*options: str) -> str:
        result = CliRunner().invoke(app, ["lock", str(file), *options])
        assert result.exit_code == 0, result.output
        return re.sub(r"\S+platform", "platform", result.output)

    assert ran() == "platform.lock.yaml: nothing changes.\n"
    file.write_text(FILE.replace("name: aa", "name: cc"))
    assert ran().splitlines() == [
        "nodes-aa: 10.0.128.0/20 leaves with the next deploy",
        "nodes-cc: 10.0.160.0/20 in usw2-az1",
        "platform.lock.yaml: written. Commit it together with platform.yaml.",
    ]
    assert load_platform(file).lock.leaving == ("nodes-aa",)
    assert ran("--deployed").splitlines()[0] == "nodes-aa: 10.0.128.0/20 is free"
    assert load_platform(file).lock.leaving == ()
    assert load_platform(file).model_copy().lock == load_platform(file).lock


@pytest.mark.parametrize(
    ("replace", "by", "says"),
    [
        ("subnets:", "subnet:", ["platform.lock.yaml:4:1: subnet", "did you mean subnets?"]),
        ("10.0.144.0/20", "10.0.128.0/20", ["nodes-bb.cidr", "nodes-aa has 10.0.128.0/20", "run `trainway lock`"]),
        ("10.0.144.0/20", "10.0.144.0/9", ["nodes-bb.cidr", "begins at its first address", "write 10.0.0.0/9"]),
        ("10.0.144.0/20", "10.0.144.0/30", ["nodes-bb.cidr", "between /16 and /28", "restore the file"]),
        ("nodes-bb:", "bb:", ["subnets.bb", "gives no subnet this name", "restore the file"]),
        ("usw2-az2}", "usw2-az1}", ["cluster-1.zone", "cluster-0 is in this zone", "restore the file"]),
        ("subnets:", "leaving: [nodes-zz]\nsubnets:", ["leaving[0]", "no subnet of this name", "restore the file"]),
        ("subnets:", "<<<<<<< main\nsubnets:", ["not valid YAML", "mend the syntax"]),
    ],
)
def test_a_lock_that_no_deploy_left_behind_is_refused(file: Path, replace: str, by: str, says: list[str]) -> None:
    lock = lock_file(file)
    assert replace in lock.read_text()
    lock.write_text(lock.read_text().replace(replace, by))
    with pytest.raises(SpecError) as error:
        load_platform(file)
    for part in says:
        assert part in str(error.value), error.value


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"network": {"cidr": "10.1.0.0/16"}}, ["network.cidr", "deployed with 10.0.0.0/16", "write 10.0.0.0/16"]),
        (
            {"zones": ["usw2-az2", "usw2-az1"]},
            ["node_groups[0].zone", "subnet of aa was deployed in usw2-az1", "write `zone: usw2-az1`"],
        ),
        ({"zones": ["usw2-az2", "usw2-az3"]}, ["zones", "deployed with usw2-az1", "keep usw2-az1"]),
        ({"zones": ["usw2-az1", "usw2-az2", "usw2-az3"]}, ["zones[2]", "can have no other zones", "leave it out"]),
        (
            {"node_groups": [{"name": "aa", "instance_type": "g5.8xlarge", "count": 1, "max_count": 400}]},
            ["node_groups[0].max_count", "deployed as 10.0.128.0/20", "add a second node group"],
        ),
    ],
)
def test_what_cannot_change_once_deployed_is_refused(file: Path, change: dict[str, Any], says: list[str]) -> None:
    lock_file(file).unlink()
    file.write_text(yaml.safe_dump(yaml.safe_load(FILE) | change))
    load_platform(file)  # right for a platform that is not deployed
    file.write_text(FILE)
    assert CliRunner().invoke(app, ["lock", str(file)]).exit_code == 0
    file.write_text(yaml.safe_dump(yaml.safe_load(FILE) | change))
    with pytest.raises(SpecError) as error:
        load_platform(file)
    for part in says:
        assert part in str(error.value), error.value
