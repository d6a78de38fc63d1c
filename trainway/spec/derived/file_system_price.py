"""Estimate the price of a Lustre file system, so that nobody pays for two without knowing it."""

from __future__ import annotations

from typing import Final

PRICES: Final = "https://aws.amazon.com/fsx/lustre/pricing/"
# US dollars per GiB on SSD and month, by MB/s per TiB: the hourly prices of 9.6 TiB in Tokyo × 730. AWS's page shows
# its prices only to a browser. These are from an article on Persistent 2 of DevelopersIO, 2022-09-03. The first of them
# is 0.145 in the United States: https://c3x.dev/resources/aws/aws_fsx_lustre_file_system/ (both read 2026-11-23)
USD_PER_GIB_MONTH: Final = {125: 0.19, 250: 0.28, 500: 0.47, 1000: 0.85}


def monthly_price(capacity_gib: int | None, throughput_mbps_per_tib: int | None) -> str:
    """Return the monthly price of a Lustre file system, in words.

    The price is an estimate for storage alone, from the list prices of an expensive Region. Without a capacity in GiB,
    or for a throughput in MB/s per TiB without a price here, the text names the page with the prices.
    """
    each = USD_PER_GIB_MONTH.get(throughput_mbps_per_tib or 0)
    if each is None or capacity_gib is None:
        return f"by throughput and by what it holds ({PRICES})"
    return f"about ${round(capacity_gib * each, -1):,.0f} a month"
