"""The command that takes newer charts reads a real registry and a real chart repository, and changes nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.delivery.conftest import listed
from tests.delivery.lock_internet import Internet, internet
from tests.delivery.test_refresh_lock import Checkout

__all__ = ["internet"]

CHARTS, LOCK = "delivery.refresh_lock.charts", "delivery.refresh_lock"
NEW = "9.9.9"


@pytest.fixture
def checkout(tmp_path: Path, internet: Internet) -> Checkout:
    """A checkout whose list is as people wrote it, with the charts of this internet alone."""
    made = Checkout(tmp_path / "checkout", internet)
    document = made.read("mirror.yaml")
    for chart in document["charts"]:
        if "oci" in chart:
            chart["oci"] = f"oci://{internet.registry}/{chart['oci'].removeprefix('oci://')}"
    text = yaml.safe_dump(document, sort_keys=False, width=1000)
    # Lists are indented as in the file that people write.
    text = "".join(f"  {line}" if line.startswith(("- ", "  ")) else line for line in text.splitlines(keepends=True))
    (made.root / "delivery/mirror.yaml").write_text("# A comment that stays.\n" + text)
    return made


def publish(internet: Internet, name: str, version: str, values: Mapping[str, object]) -> None:
    """Publish a chart with values."""
    folder = internet.root / "charts" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    internet.publish(name, version, version)


def test_a_newer_chart_goes_into_the_list_with_its_images_and_into_the_lock(
    checkout: Checkout, internet: Internet
) -> None:
    kueue = {"controllerManager": {"manager": {"image": {"repository": "r", "tag": f"v{NEW}"}}}}
    publish(internet, "kueue", NEW, kueue)
    publish(internet, "kuberay-operator", listed("charts", "kuberay-operator")["version"], {})
    digest = internet.push("kueue", "newer", f"v{NEW}")
    internet.push("kuberay-operator", "as it was")
    status, lines = checkout.run(module=CHARTS)
    before = {kind: listed(kind, "kueue") for kind in ("charts", "images")}
    assert status == 0, lines
    assert lines[:2] == [
        f"chart kueue: {before['charts']['version']} -> {NEW}",
        f"image kueue: {before['images']['tag']} -> v{NEW}",
    ]
    written = (checkout.root / "delivery/mirror.yaml").read_text()
    assert written.startswith("# A comment that stays.\n")
    document = checkout.read("mirror.yaml")
    [image] = [each for each in document["images"] if each["name"] == "kueue"]
    assert image["tag"] == f"v{NEW}" and image["source"].endswith(f"v{NEW}") and str(image["read"]) >= "2026-12-01"
    [same] = [each for each in document["images"] if each["name"] == "kuberay-operator"]
    assert same["tag"] == listed("images", "kuberay-operator")["tag"]
    # The lock takes the digest of what the list names now.
    checkout.run("kueue", module=LOCK)
    assert checkout.lock["images"]["kueue"] == {"tag": f"v{NEW}", "digest": digest}
    status, lines = checkout.run(module=CHARTS)
    assert (status, lines) == (0, ["mirror.yaml has everything that was read"])
    assert (checkout.root / "delivery/mirror.yaml").read_text() == written


def test_a_check_writes_nothing(checkout: Checkout, internet: Internet) -> None:
    publish(internet, "kueue", NEW, {})
    before = (checkout.root / "delivery/mirror.yaml").read_text()
    status, lines = checkout.run("--check", "kueue", module=CHARTS)
    assert status == 1 and f"-> {NEW}" in lines[0]
    assert (checkout.root / "delivery/mirror.yaml").read_text() == before


def test_a_chart_that_cannot_be_read_is_named_and_the_others_are_asked(checkout: Checkout, internet: Internet) -> None:
    publish(internet, "kuberay-operator", NEW, {"image": {"tag": f"v{NEW}"}})
    status, lines = checkout.run(module=CHARTS)
    assert status == 1
    assert [line for line in lines if line.startswith("chart kueue ") and "not read" in line]
    assert f"image kuberay-operator: {listed('images', 'kuberay-operator')['tag']} -> v{NEW}" in lines
