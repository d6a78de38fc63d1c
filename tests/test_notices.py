"""The notices name every distribution that an installation includes, with its license, and are in the wheel."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import pytest

from docs.generators import notices
from tests.synthesis import ROOT
from tests.wheel_environment import build_wheel


def test_the_page_is_what_the_installed_distributions_say() -> None:
    written = notices.PAGE.read_text(encoding="utf-8")
    assert written == notices.page(), "rewrite it with `python -m docs.generators.notices`"


def test_what_a_requirement_requires_is_found_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = notices.closure(project["dependencies"])
    assert {"boto3", "botocore", "urllib3", "pydantic-core", "six"} <= found.keys()
    assert "torch" not in found and "torch" in notices.closure(project["optional-dependencies"]["training"])


def test_a_distribution_without_a_license_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "unlicensed-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.4\nName: unlicensed\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (only,) = notices.closure(["unlicensed"]).values()
    with pytest.raises(ValueError, match="unlicensed has no license"):
        notices.license_of(only)


def test_the_wheel_has_the_license_and_the_notices(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        names = {Path(name).name for name in wheel.namelist() if ".dist-info/licenses/" in name}
    assert names == {"LICENSE", "THIRD_PARTY_NOTICES.md"}
