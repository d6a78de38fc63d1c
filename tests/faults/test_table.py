"""Each fault of the table has a test, each test of faults is in the table, and the page shows the table."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.table import BETWEEN, FAULTS, PAGE, Fault, notes, results, table

TESTS = Path(__file__).parents[1]


def names_in(file: Path) -> set[str]:
    """Return the names of the tests in a file."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {each.name for each in body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_a_test_that_exists(fault: Fault) -> None:
    file, _, name = fault.test.partition("::")
    assert name in names_in(TESTS / file)


def test_every_test_of_faults_is_in_the_table() -> None:
    files = [
        file for file in (TESTS / "faults").glob("test_*.py") if file.name not in ("test_table.py", "test_recorder.py")
    ]
    planted = {f"faults/{file.name}::{name}" for file in files for name in names_in(file)}
    assert planted == {fault.test for fault in FAULTS if fault.test.startswith("faults/")}


def test_the_page_has_the_table_and_the_figures() -> None:
    found = BETWEEN.search(PAGE.read_text(encoding="utf-8"))
    assert found
    assert found[0] == f"{table()}\n\n{notes()}\n\n", "run `python -m tests.faults.table`"


def test_the_figures_are_of_faults_of_the_table_and_say_how_to_get_them_again() -> None:
    result = results()
    assert result["command"].startswith("python -m tests.faults") and "--record" not in result["command"]
    assert result["figures"].keys() <= {fault.name for fault in FAULTS}
    for found in result["figures"].values():
        assert "skipped" in found or 0 <= found["as_promised"] <= found["runs"]
