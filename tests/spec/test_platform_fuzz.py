"""No platform file, however odd, ends in a traceback: it is a platform, or it is explained."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.data_files import parse_yaml, read_yaml
from tests.hypothesis_profiles import examples
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

GOOD = parse_yaml(read_yaml(Path(__file__).with_name("platform_mistakes.yaml"))["good"])
KEYS = st.sampled_from(
    ["name", "region", "zones", "orchestrator", "network", "cidr", "node_groups", "instance_type", "count", "max_count",
     "capacity", "training_plan", "reservation", "storage", "lustre", "efa", "teams", "guarantee", "kubernetes",
     "system_nodes", "slurm", "login", "p5.48xlarge", "observability", "notify", "x"]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["eks", "hyperpod-slurm", "p5.48xlarge", "usw2-az1", "10.0.0.0/8", "::/0", "spot", "1.34", "{x}"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in the file where something could be put."""
    found = [path] if path else []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return found + [place for key, value in items for place in places(value, (*path, key))]


@examples(4)
@given(
    st.lists(st.tuples(st.sampled_from(places(GOOD)), VALUES), max_size=3), st.dictionaries(KEYS, VALUES, max_size=2)
)
def test_a_file_is_good_or_explained(changes: list[tuple[tuple[Any, ...], Any]], added: dict[str, Any]) -> None:
    data = copy.deepcopy(GOOD) | added
    for path, value in changes:
        holder = data
        try:
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change took the place away
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "platform.yaml"
        file.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
        try:
            load_platform(file)
        except SpecError as error:
            assert error.problems
            assert all(problem.reason and problem.remedy for problem in error.problems)
            str(error)
