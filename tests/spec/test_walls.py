"""Default walls between teams, and keys of the platform file that change them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainway.spec.platform import Platform

ONE, TWO = [{"name": "a"}], [{"name": "a"}, {"name": "b"}]
SLURM = {"orchestrator": "hyperpod-slurm"}


def walls(**keys: Any) -> tuple[bool, bool | None, bool | None]:
    """Return whether teams have prefixes and directories, and whether the file system mirrors the bucket."""
    document = {
        "region": "us-west-2",
        "zones": ["usw2-az1"],
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
    }
    storage = Platform.model_validate(document | keys).storage
    if storage.lustre is None:
        return storage.bucket.team_prefixes, None, None
    return storage.bucket.team_prefixes, storage.lustre.team_directories, storage.lustre.mirror


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, (False, False, True)),
        ({"teams": ONE}, (False, False, True)),
        ({"teams": TWO}, (True, True, False)),
        ({"teams": tuple(TWO), "storage": {}}, (True, True, False)),
        ({"teams": TWO, "storage": {"lustre": None}}, (True, None, None)),
        ({"teams": TWO, **SLURM}, (True, False, True)),
    ],
)
def test_several_teams_have_walls_by_default(keys: dict[str, Any], expected: tuple[bool, Any, Any]) -> None:
    assert walls(**keys) == expected


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ({"bucket": {"team_prefixes": False}}, (False, False, True)),
        ({"lustre": {"team_directories": False}}, (True, False, True)),
        ({"lustre": {"mirror": True}}, (True, True, True)),
        ({"lustre": {"mirror": False, "team_directories": False}}, (True, False, False)),
        ({"bucket": {"shared": ["corpus/web"]}}, (True, True, False)),
    ],
)
def test_what_the_file_says_stays(storage: dict[str, Any], expected: tuple[bool, Any, Any]) -> None:
    assert walls(teams=TWO, storage=storage) == expected


@pytest.mark.parametrize(
    "keys",
    [
        {"teams": TWO, "storage": 1},
        {"teams": TWO, "storage": {"bucket": []}},
        {"teams": TWO, "storage": {"lustre": "x"}},
        {"teams": TWO, "storage": {"bucket": {"team_prefixes": "maybe"}}},
        {"teams": {"a": 1, "b": 2}},
    ],
)
def test_a_wrong_file_has_the_error_of_its_model(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        walls(**keys)


def test_the_document_itself_is_not_changed() -> None:
    storage: dict[str, Any] = {"bucket": {"shared": ["corpus/web"]}, "lustre": {"efa": False}}
    assert walls(teams=TWO, storage=storage) == (True, True, False)
    assert storage == {"bucket": {"shared": ["corpus/web"]}, "lustre": {"efa": False}}
