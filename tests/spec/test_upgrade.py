"""Which version of Trainway may deploy over what another one deployed."""

from __future__ import annotations

import pytest

from trainway import __version__
from trainway.spec.deployment.upgrade import upgrade_refusal
from trainway.spec.facts.kubernetes_versions import numbers
from trainway.spec.facts.releases import Release, releases

# 0.3.0 dropped what 0.1.0 needs, and 0.5.0 what 0.2.0 needs.
KNOWN = tuple(
    Release(version=version, upgrades_from=oldest)
    for version, oldest in [("0.1.0", "0.1.0"), ("0.2.0", "0.1.0"), ("0.3.0", "0.2.0"), ("0.5.0", "0.3.0")]
)


@pytest.mark.parametrize(
    ("deployed", "version"),
    [("0.1.0", "0.1.0"), ("0.1.0", "0.2.0"), ("0.1.3", "0.2.0"), ("0.2.0", "0.3.0"), ("0.3.9", "0.5.0")],
)
def test_a_version_upgrades_what_its_table_has(deployed: str, version: str) -> None:
    assert upgrade_refusal(deployed, version, KNOWN) is None


@pytest.mark.parametrize(
    ("deployed", "version", "through"),
    [("0.1.0", "0.3.0", "0.2.0"), ("0.1.0", "0.5.0", "0.2.0"), ("0.2.0", "0.5.0", "0.3.0")],
)
def test_an_older_platform_goes_through_the_newest_version_that_upgrades_it(
    deployed: str, version: str, through: str
) -> None:
    refusal = upgrade_refusal(deployed, version, KNOWN)
    assert refusal is not None
    assert refusal.fix == f"install Trainway {through}, deploy with it, and then with {version}"


@pytest.mark.parametrize("deployed", ["0.6.0", "0.10.0", "1.0.0", "0.5.1", "0.6.0rc1", "next"])
def test_what_a_newer_version_deployed_is_refused(deployed: str) -> None:
    refusal = upgrade_refusal(deployed, "0.5.0", KNOWN)
    assert refusal is not None
    assert refusal.fix == f"install Trainway {deployed} or newer, and deploy with it"


def test_what_no_version_upgrades_is_deployed_anew() -> None:
    for refusal in (upgrade_refusal("0.0.9", "0.5.0", KNOWN), upgrade_refusal(None, "0.5.0", KNOWN)):
        assert refusal is not None
        assert "make destroy" in refusal.fix and "data bucket stays" in refusal.fix


def test_the_table_ends_with_this_version_and_each_release_upgrades_from_a_release_before_it() -> None:
    listed = [release.version for release in releases()]
    assert listed == sorted(listed, key=numbers) and listed[-1] == __version__
    assert all(each.upgrades_from in listed[: number + 1] for number, each in enumerate(releases()))
