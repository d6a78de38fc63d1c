"""A job that does not fit its platform is refused before anything is submitted, in one sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.launch.conftest import load_job
from trainway.launch.program.allocation import allocate
from trainway.launch.program.locations import check_team
from trainway.launch.program.request import run_name
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff, Nodes

CATALOGUE = load_catalogue()


@pytest.fixture
def mixed(hand_off: HandOff) -> HandOff:
    groups = (
        Nodes(name="data", instance_type="m7i.8xlarge", count=0, max_count=20, ranks=1),
        Nodes(name="small", instance_type="g5.48xlarge", count=1, max_count=2, ranks=8),
        *hand_off.node_groups,
    )
    return hand_off.model_copy(update={"node_groups": groups})


@pytest.mark.parametrize(("nodes", "group"), [(1, "small"), (2, "small"), (3, "train"), (16, "train")])
def test_a_job_gets_the_first_accelerated_group_that_is_large_enough(
    nodes: int, group: str, mixed: HandOff, tmp_path: Path
) -> None:
    job = load_job(tmp_path, nodes=nodes, batch={"global": 384, "micro": 1})
    allocation = allocate(job, mixed, CATALOGUE)
    assert (allocation.group.name, allocation.nodes, allocation.world_size) == (group, nodes, 8 * nodes)


def test_a_group_that_is_named_is_taken(mixed: HandOff, tmp_path: Path) -> None:
    assert allocate(load_job(tmp_path), mixed, CATALOGUE, "data").world_size == 1


def test_ranks_come_from_the_catalogue_where_the_deploy_did_not_say(hand_off: HandOff, tmp_path: Path) -> None:
    assert [group.ranks for group in hand_off.node_groups] == [None]
    assert allocate(load_job(tmp_path, batch={"global": 8, "micro": 1}), hand_off, CATALOGUE).ranks == 8


def test_a_job_larger_than_the_platform_is_refused(mixed: HandOff, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"asks for 17 nodes[\s\S]*train, has at most 16"):
        allocate(load_job(tmp_path, nodes=17), mixed, CATALOGUE)
    with pytest.raises(UsageError, match=r"asks for 3 nodes[\s\S]*small of atlas has at most 2"):
        allocate(load_job(tmp_path, nodes=3), mixed, CATALOGUE, "small")


def test_a_degree_that_does_not_divide_is_refused_with_the_nodes_it_was_meant_for(
    hand_off: HandOff, tmp_path: Path
) -> None:
    job = load_job(tmp_path, parallel={"tp": 3}, batch={"global": 8, "micro": 1})
    with pytest.raises(UsageError, match=r"1 x p5\.48xlarge with 8 ranks each[\s\S]*tp is 3.*does not divide the 8"):
        allocate(job, hand_off, CATALOGUE)


def test_a_group_and_a_team_that_do_not_exist_are_answered_with_those_that_do(mixed: HandOff, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="data, small, train"):
        allocate(load_job(tmp_path), mixed, CATALOGUE, "large")
    with pytest.raises(UsageError, match="research"):
        check_team(load_job(tmp_path, team="marketing"), mixed)
    check_team(load_job(tmp_path, team="research"), mixed)
    check_team(load_job(tmp_path), mixed)


def test_a_run_has_a_name_that_pods_can_be_called_after(tmp_path: Path) -> None:
    now = datetime(2026, 11, 21, 8, 30, 5, tzinfo=UTC)
    assert run_name(load_job(tmp_path), now) == "small-1121-083005"
    longest = run_name(load_job(tmp_path, name="a" * 29 + "-" + "b" * 20), now)
    # Three characters are left for a number, if another run began in this second.
    assert longest == "a" * 27 + "-1121-083005"
