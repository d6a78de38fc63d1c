"""An emulated AWS that sells things, and the words of its price list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from emulator import Emulator, running


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def aws(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """The emulator as the AWS of this process, which sells nothing yet."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    return emulator


def row(
    service: str, usage: str, usd: str, *, region: str = "us-west-2", published: str = "2026-11-20", **attributes: str
) -> dict[str, Any]:
    """Return a product of the price list, as the Price List API has it."""
    family = attributes.pop("productFamily", "")
    return {
        "serviceCode": service,
        "publicationDate": f"{published}T00:00:00Z",
        "version": published.replace("-", ""),
        "product": {
            "sku": usage,
            "productFamily": family,
            "attributes": {"regionCode": region, "usagetype": usage, **attributes},
        },
        "terms": {
            "OnDemand": {
                f"{usage}.JRTCKXETXF": {
                    "priceDimensions": {
                        "only": {"unit": "Hrs", "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": usd}}
                    }
                }
            }
        },
    }


def ec2_row(instance_type: str, usd: str, *, usage: str | None = None, **attributes: str) -> dict[str, Any]:
    """Return the row of an instance with Linux, of shared tenancy. `attributes` replace its own."""
    own = {
        "instanceType": instance_type,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
        "marketoption": "OnDemand",
    }
    return row("AmazonEC2", usage or f"USW2-BoxUsage:{instance_type}", usd, **{**own, **attributes})
