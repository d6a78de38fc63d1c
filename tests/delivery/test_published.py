"""The digests that the lock pins are those that a real registry and a real chart repository serve."""

from __future__ import annotations

import pytest

from delivery.refresh_lock.published import Unread, published
from tests.delivery.conftest import listed
from tests.delivery.lock_internet import Internet, internet
from tests.registry import push_image

__all__ = ["internet"]


@pytest.fixture
def here(internet: Internet, monkeypatch: pytest.MonkeyPatch) -> Internet:
    """The programs of this process read from the registry on loopback."""
    for name, value in internet.variables.items():
        monkeypatch.setenv(name, value)
    return internet


def test_the_digest_of_an_image_is_that_of_its_index_for_all_platforms(here: Internet) -> None:
    digest = here.push("kueue", "first")
    assert published(listed("images", "kueue")) == digest


def test_the_sum_of_a_chart_is_that_of_its_archive_in_a_registry_and_in_a_repository(here: Internet) -> None:
    sums = [here.publish(name, "first") for name in ("kueue", "kuberay-operator")]
    chart = listed("charts", "kuberay-operator") | {"repository": here.repository}
    assert [published(listed("charts", "kueue")), published(chart)] == sums


def test_an_image_in_the_place_of_a_chart_is_not_taken_for_one(here: Internet) -> None:
    chart = listed("charts", "kueue")
    push_image(here.root, f"{here.registry}/{chart['oci'].removeprefix('oci://')}:{chart['version']}", "image")
    with pytest.raises(Unread, match=r"is no chart\. A chart has one layer application/vnd\.cncf\.helm\."):
        published(chart)


def test_what_is_not_published_is_named_with_the_answer_of_the_registry(here: Internet) -> None:
    with pytest.raises(Unread, match=r"kueue/kueue.*manifest unknown") as raised:
        published(listed("images", "kueue"))
    assert not raised.value.needs_login and "level=fatal" not in str(raised.value)
    chart = listed("charts", "kuberay-operator") | {"repository": here.repository}
    with pytest.raises(Unread, match=r"index\.yaml"):
        published(chart)
