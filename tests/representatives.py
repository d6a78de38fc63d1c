"""Divides the cases of a test between `make test` and `make test-all`.

`make test` proves each promise with the cases that differ in kind: the representatives. `make test-all` tries all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

# A platform of each orchestrator.
PLATFORMS = ("platform", "hyperpod-eks-shared", "hyperpod-slurm-p5en")


def representatives_and_every(every: Iterable[str], representatives: Collection[str] = PLATFORMS) -> list[Any]:
    """Return two parameters of a test that reads many platforms at once: the names of some, and those of all.

    `every` names all platforms that the test may read. Only `make test-all` reads all of them.
    """
    names = tuple(every)
    some = tuple(name for name in names if name in representatives)
    return [
        pytest.param(some, id="representatives"),
        pytest.param(names, id="every", marks=pytest.mark.exhaustive),
    ]


def with_representatives(cases: Iterable[str], representatives: Collection[str]) -> list[Any]:
    """Return the names of cases as parameters of a test, all but the representatives marked `exhaustive`.

    Raises ValueError for a representative that is no case.
    """
    listed = list(cases)
    if unknown := set(representatives) - set(listed):
        raise ValueError(f"no cases of this test: {sorted(unknown)}; the cases are {listed}")
    return [case if case in representatives else pytest.param(case, marks=pytest.mark.exhaustive) for case in listed]


def chosen(request: pytest.FixtureRequest, cases: dict[str, Any], parameter: str) -> dict[str, Any]:
    """Return those of a fixture's cases that a test of this run asks for, by the value of the test's parameter.

    For a fixture of a module that computes many cases at once.
    """
    asked = {
        item.callspec.params[parameter]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and request.fixturename in item.fixturenames
    }
    return {name: case for name, case in cases.items() if name in asked}
