"""Any sequence of edits ends in the templates that a fresh synthesis of the last file gives, or in a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st

from tests.changes.conftest import LiveOf
from tests.changes.edit import ORCHESTRATORS, base, group
from tests.hypothesis_profiles import examples
from tests.synthesis import templates_of

NAMES = ("aa", "bb", "cc", "dd", "ee")
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(0, 2),
        "max_count": st.sampled_from([2, 16, 90]),
        "instance_type": st.sampled_from(["g6e.8xlarge", "g6e.12xlarge"]),
        "zone": st.sampled_from(["usw2-az1", "usw2-az2"]),
    },
)
# Other keys of the file, each with what it has beside nothing.
KEYS: dict[str, Any] = {
    "network": "closed",
    "storage": {"lustre": {"capacity_tib": 4.8, "throughput_mbps_per_tib": 1000, "import_from": ["s3://mine/a/"]}},
    "iam": {"training_jobs": True},
    "zones": ["usw2-az1", "usw2-az2"],
}
# A sequence with an edit that is deployed and one that is refused, because the subnet of `aa` cannot grow.
ONE_REFUSED = [{"node_groups": [group("aa", max_count=count)]} for count in (4, 5000)]


@st.composite
def edits(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What is written over the base in each step of a sequence."""
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
        keys = draw(st.sets(st.sampled_from(sorted(KEYS)), max_size=1))
        groups = [group(name, **draw(SETTINGS)) for name in names]
        steps.append({"node_groups": groups} | {key: KEYS[key] for key in keys})
    return steps


# Ten of each orchestrator in the profile `thorough`, and 34 in `long`. tests/spec/test_lock.py proves of the addresses
# alone what this proves of deploys.
@pytest.mark.exhaustive
@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
def test_a_sequence_of_edits_ends_as_a_fresh_synthesis(orchestrator: str, live_of: LiveOf) -> None:
    refused = deployed = 0
    live = live_of(orchestrator)

    # A sequence begins where the one before it ended, so that no smaller one need fail as well.
    @settings(examples(0.1), phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
    @given(edits())
    @example(ONE_REFUSED)
    def sequences(steps: list[dict[str, Any]]) -> None:
        nonlocal refused, deployed
        for step in steps:
            note(str(step))
            before = live.templates()
            outcome = live.edit(base(live.name, orchestrator) | step, allowed=None)
            if outcome.refused:
                refused += 1
                assert live.templates() == before
                continue
            deployed += 1
            assert outcome.lost == outcome.names, "the diff refuses what is lost, and nothing else"
            named = {each["name"] for each in step["node_groups"]}
            subnets = {name for name in live.platform.lock.subnets if name.startswith("nodes-")}
            assert subnets == {f"nodes-{name}" for name in named}
            assert live.templates() == templates_of(live.platform)

    sequences()
    print(f"{orchestrator}: {deployed} edits deployed, {refused} refused")
    assert deployed and refused
