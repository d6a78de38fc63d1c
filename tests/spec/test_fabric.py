"""What the publishers promise of NCCL, aws-ofi-nccl, and libfabric, and what GIN requires of them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from trainway.spec.facts.versions import EfaInstaller, Gin, Plugin, combination_named
from trainway.spec.image.compatibility import Fabric, gin_lacks, is_older, libfabric_level, nccl_level
from trainway.spec.loader import load_versions

STATED: dict[str, Any] = {"source": "https://example.com", "read": date(2026, 12, 1)}
GIN = Gin(nccl_from="2.31.2", gdrcopy_from="2.5", gda_libfabric_from="2.6.0")
PLUGIN = Plugin(
    version="1.21.1",
    tested_with_libfabric=("2.6.0amzn1.0",),
    tested_with_nccl=("2.31.2",),
    libfabric_from="1.22.0",
    nccl_from="2.17.1",
    gin=GIN,
    **STATED,
)
INSTALLER = EfaInstaller(
    version="1.50.0",
    url="https://example.com/efa.tar.gz",
    sha256=None,
    libfabric="2.6.0amzn1.0",
    aws_ofi_nccl="1.21.1",
    **STATED,
)


def fabric(nccl: str, plugin: Plugin = PLUGIN) -> Fabric:
    return Fabric(nccl, INSTALLER, plugin)


@pytest.mark.parametrize(
    ("nccl", "found"),
    [("2.31.2", "tested"), ("2.30.7", "compatible"), ("2.17.1", "compatible"), ("2.17.0", None), ("2.9.6", None)],
)
def test_an_nccl_is_tested_or_in_the_range_or_nothing_is_promised_of_it(nccl: str, found: str | None) -> None:
    assert nccl_level(fabric(nccl)) == found


@pytest.mark.parametrize(
    ("libfabric", "found"),
    [("2.6.0amzn1.0", "tested"), ("2.7.0amzn2.0", "compatible"), ("1.22.0amzn4.0", "compatible"), ("1.21.1", None)],
)
def test_a_libfabric_is_tested_or_in_the_range_or_nothing_is_promised_of_it(libfabric: str, found: str | None) -> None:
    assert libfabric_level(INSTALLER.model_copy(update={"libfabric": libfabric}), PLUGIN) == found


def test_without_a_range_only_what_was_tested_is_promised() -> None:
    plugin = PLUGIN.model_copy(update={"nccl_from": None})
    assert [nccl_level(fabric(nccl, plugin)) for nccl in ("2.31.2", "2.30.7")] == ["tested", None]


@pytest.mark.parametrize(
    ("nccl", "gdrcopy", "plugin", "lacks"),
    [
        ("2.31.2", "2.5.1", PLUGIN, None),
        ("2.30.7", "2.5.1", PLUGIN, "NCCL 2.31.2 or newer, and the image has 2.30.7"),
        ("2.31.2", "2.4.4", PLUGIN, "GDRCopy 2.5 or newer, and the image has 2.4.4"),
        ("2.31.2", "2.5.1", PLUGIN.model_copy(update={"gin": None}), "aws-ofi-nccl 1.21.1 is not documented for GIN"),
    ],
)
def test_gin_requires_a_plugin_an_nccl_and_a_gdrcopy(
    nccl: str, gdrcopy: str, plugin: Plugin, lacks: str | None
) -> None:
    assert gin_lacks(fabric(nccl, plugin), gdrcopy) == lacks


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_older("2.9.6", "2.17.1")
    assert not is_older("2.30.7", "2.30.7")


def test_the_fabric_of_the_default_was_tested_by_aws() -> None:
    versions = load_versions()
    stable = combination_named(versions, versions.default)
    assert stable and stable.evidence is None, "it needs none"
