"""A deploy ends with the phase and the reason when a pipeline of a live platform fails: image, mirror, or cluster.

tests/delivery/test_failed_pipelines.py deploys one stack and runs the scripts of its stages. Here the whole platform is
deployed, and an edit of its file starts the pipeline that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.changes.conftest import LiveOf
from tests.changes.edit import NEXT_DAY, Document, base
from tests.changes.live import NotDeployedError
from tests.delivery.faults import FAULTS, SOURCE_FAULT
from tests.representatives import with_representatives


@dataclass(frozen=True)
class Failing:
    """A stage of a pipeline, and an edit that starts the stage on a platform of the orchestrator."""

    orchestrator: str
    pipeline: str
    action: str
    edit: Callable[[Document], None]


def _in_section(name: str, **values: Any) -> Callable[[Document], None]:
    return lambda document: document.setdefault(name, {}).update(values)


def _add_a_team(document: Document) -> None:
    document["teams"] = [{"name": "red"}]


FAILING = {
    "packages of the image": Failing(
        "eks", "image", "Step2/Additions", _in_section("image", packages={"apt": ["libaio-dev"]})
    ),
    "base of the image": Failing("eks", "image", "Step1/Base", _in_section("image", refresh=NEXT_DAY)),
    "charts of the mirror": Failing("eks", "mirror", "Step1/Mirror", _in_section("kubernetes", mpi_operator=True)),
    "objects of the cluster": Failing("eks", "cluster", "Step1/Cluster", _add_a_team),
    "objects of HyperPod's cluster": Failing("hyperpod-eks", "cluster", "Step1/Cluster", _add_a_team),
    "scripts of HyperPod's nodes": Failing(
        "hyperpod-slurm", "cluster", "Step1/Scripts", _in_section("slurm", users=[{"name": "ana", "uid": 20001}])
    ),
}


@pytest.mark.parametrize("case", with_representatives(FAILING, ()))
def test_each_fault_ends_the_deploy_with_its_phase_and_the_next_deploy_succeeds(case: str, live_of: LiveOf) -> None:
    failing = FAILING[case]
    live = live_of(failing.orchestrator)
    pipeline = f"{live.name}-{failing.pipeline}"
    document = base(live.name, failing.orchestrator)
    failing.edit(document)
    faults = {f"{failing.action}: {reason}": (failing.action, outcome) for outcome, reason in FAULTS.values()}
    outcome, reason = SOURCE_FAULT
    faults[f"Source/Bundle: {reason}"] = "Source/Bundle", outcome
    for said, (action, outcome) in faults.items():
        live.emulator.set_builds({f"{pipeline}/{action.partition('/')[2]}": [outcome, outcome]})
        with pytest.raises(NotDeployedError) as ended:
            live.edit(document)
        assert f"{pipeline} is UPDATE_ROLLBACK_COMPLETE" in str(ended.value)
        assert f"pipeline {pipeline}: {said}" in str(ended.value)
    # Without a fault the same edit is deployed, and so is the way back.
    live.emulator.set_builds({})
    assert not live.edit(document).refused
    assert not live.edit(base(live.name, failing.orchestrator)).refused
