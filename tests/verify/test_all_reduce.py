"""The table of NCCL's tests is read as AWS prints it, and what a type has to reach is below what it does reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.spec.facts.catalogue import load_catalogue
from trainway.verify import all_reduce
from trainway.verify.all_reduce import PublishedBandwidth, floor_of, load_published, read_sweep

LOGS = Path(__file__).parent / "logs"
FIGURES = ((300, 16), (400, 4))


def test_the_table_of_a_slurm_job_is_read_by_size() -> None:
    sweep = read_sweep((LOGS / "all-reduce-p5.txt").read_text())
    assert sweep is not None
    assert len(sweep.busbw) == 32
    assert sweep.best == (17179869184, 487.26)
    assert sweep.busbw[1048576] == 16.21
    assert sweep.wrong == 0


def test_the_table_of_an_mpi_job_is_read_behind_its_labels() -> None:
    sweep = read_sweep((LOGS / "all-reduce-mpi.txt").read_text())
    assert sweep is not None
    assert sweep.best == (2147483648, 437.89)


def test_wrong_values_are_counted_and_roundings_are_not() -> None:
    row = "  67108864  16777216  float  sum  -1  1491.4   45.00   84.37  {}   1487.8   45.11   84.58  {}\n"
    old = read_sweep(row.format("5e-07", "5e-07"))
    assert old is not None
    assert old.wrong == 0
    bad = read_sweep(row.format("3", "0") + "# Out of bounds values : 8 FAILED\n")
    assert bad is not None
    assert bad.wrong == 8


def test_a_text_without_a_table_was_not_measured() -> None:
    assert read_sweep("step=1/2 loss=11.7113 grad_norm=0.4127 tokens_per_second=812345\n") is None


@pytest.mark.parametrize("name", sorted(load_published()))
def test_what_was_published_is_of_a_type_that_is_known_and_above_its_floor(name: str) -> None:
    for published in load_published()[name]:
        assert floor_of(load_catalogue()[name], published.nodes).busbw == pytest.approx(0.8 * published.busbw)


def test_every_type_with_efa_has_a_floor_far_above_tcp() -> None:
    for instance in load_catalogue().values():
        if instance.accelerator and instance.efa_interfaces > 1:
            assert floor_of(instance, 2).busbw > 0.3 * instance.network_gbps / 8, instance.name


def test_a_loss_of_a_third_is_below_the_floor_of_each_type_with_a_published_figure() -> None:
    for name, figures in load_published().items():
        for published in figures:
            assert floor_of(load_catalogue()[name], published.nodes).busbw > 0.65 * published.busbw


def test_a_number_of_nodes_is_compared_with_the_next_larger_number_that_was_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = [PublishedBandwidth(busbw=each, nodes=nodes, bytes=1, source="", read="") for each, nodes in FIGURES]
    monkeypatch.setattr(all_reduce, "load_published", lambda: {"p5en.48xlarge": tuple(figures)})
    instance = load_catalogue()["p5en.48xlarge"]
    assert floor_of(instance, 2).busbw == pytest.approx(0.8 * 400)
    assert floor_of(instance, 4).busbw == pytest.approx(0.8 * 400)
    assert floor_of(instance, 5).busbw == pytest.approx(0.8 * 300)
    more = floor_of(instance, 17)
    assert more.busbw == pytest.approx(0.7 * 300)
    assert more.because == "70% of the 300 GB/s published for 16 nodes"


def test_a_type_of_which_nothing_is_published_is_measured_by_its_network() -> None:
    floor = floor_of(load_catalogue()["p5e.48xlarge"], 2)
    assert floor.busbw == pytest.approx(0.6 * 400)
    assert "network" in floor.because
