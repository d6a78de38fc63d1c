"""A definition is read only if it is the one that is named, and a test without it does not pass."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.seams.kubernetes import definitions
from tests.seams.kubernetes.definitions import VARIABLE, need_definitions, published

NAME = "queues.scheduling.run.ai"


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Return the only directory in which definitions are looked for."""
    need_definitions()
    here = definitions._find(next(each for each in definitions.definitions().values() if each.name == NAME))
    shutil.copy(here, tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(definitions, "BESIDE", tmp_path / "none")
    monkeypatch.setattr(definitions, "FETCHED", tmp_path / "fetched")
    published.cache_clear()
    yield tmp_path
    published.cache_clear()


@pytest.mark.usefixtures("directory")
def test_a_definition_is_found_in_the_directory_that_is_named() -> None:
    assert published(NAME)["spec"]["names"]["kind"] == "Queue"


def test_a_definition_with_other_content_is_refused(directory: Path) -> None:
    file = directory / f"{NAME}.yaml"
    file.write_text(file.read_text().replace("overQuotaWeight", "overQuota"))
    with pytest.raises(ValueError, match="has another"):
        published(NAME)


@pytest.mark.usefixtures("directory")
def test_without_the_definitions_a_test_fails_in_continuous_integration_and_is_skipped_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere(source: str, _: Path) -> Path:
        raise definitions.Missing(f"{source} cannot be read")

    monkeypatch.setattr(definitions, "fetch", nowhere)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=VARIABLE):
        need_definitions()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match=VARIABLE):
        need_definitions()
