"""The Lustre client's errors are explained by their numbers, unless it connected again."""

from __future__ import annotations

import pytest

from trainway.explain import Evidence, Log, explain

FAILED = (
    "[1000.1] LustreError: 11-0: fsx-OST0003-osc-ffff: operation ost_write to node 10.0.1.2@tcp failed: rc = {rc}\n"
)
CONNECTED = "[1009.9] Lustre: fsx-OST0003-osc-ffff: Connection restored to 10.0.1.2@tcp (at 10.0.1.2@tcp)\n"


@pytest.mark.parametrize(("rc", "words"), [(-5, "EIO"), (-28, "full"), (-107, "not connected"), (-110, "in time")])
def test_an_error_is_explained_by_its_number(rc: int, words: str) -> None:
    (first,) = explain(Evidence((Log("kern.log", FAILED.format(rc=rc)),)))
    assert first.name == f"lustre{rc}"
    assert words in first.cause


def test_a_connection_that_came_back_is_no_failure() -> None:
    assert explain(Evidence((Log("kern.log", FAILED.format(rc=-110) + CONNECTED),))) == ()


def test_a_full_disk_is_one_even_if_the_connection_came_back() -> None:
    (first,) = explain(Evidence((Log("kern.log", FAILED.format(rc=-28) + CONNECTED),)))
    assert first.name == "lustre-28"


def test_an_eviction_names_the_server() -> None:
    line = "LustreError: 167-0: fsx-MDT0000-mdc: This client was evicted by fsx-MDT0000; in progress operations fail.\n"
    (first,) = explain(Evidence((Log("kern.log", line),)))
    assert first.name == "lustre-evicted"
    assert "fsx-MDT0000" in first.cause
