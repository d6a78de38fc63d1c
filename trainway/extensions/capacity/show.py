"""Render offers of capacity as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from trainway.extensions.capacity.offers import Offer, Offers
from trainway.extensions.capacity.wanted import Wanted
from trainway.spec.sections.capacity import minute


def as_document(wanted: Wanted, found: Offers) -> dict[str, Any]:
    """Return the offers as JSON: times in UTC, and prices in US dollars, or null where they are unknown."""
    return {
        "instance_type": wanted.instance.name,
        "count": wanted.count,
        "hours": wanted.hours,
        "offers": [
            {
                "kind": each.kind.value,
                "region": each.region,
                "zones": list(each.zones),
                "count": each.count,
                "start": minute(each.start) if each.start else None,
                "end": minute(each.end) if each.end else None,
                "usd": None if each.usd is None else float(each.usd),
                "usd_per_node_hour": None
                if each.usd_per_node_hour is None
                else float(round(each.usd_per_node_hour, 6)),
                "id": each.id,
                "note": each.note or None,
            }
            for each in found.offers
        ],
        "unanswered": list(found.unanswered),
    }


def as_text(wanted: Wanted, found: Offers) -> str:
    """Return the offers as a table, followed by the questions that AWS did not answer."""
    head = ["how", "where", "from", "until", "fee", "a node and hour", "offering", ""]
    rows = [
        [
            each.kind.value,
            ", ".join(each.zones) or each.region,
            minute(each.start) if each.start else "now",
            minute(each.end) if each.end else "",
            _usd(each.usd) if each.id else "",
            _usd(each.usd_per_node_hour),
            each.id or "",
            each.note,
        ]
        for each in found.offers
    ]
    parts = [f"{wanted.count} × {wanted.instance.name} for {wanted.hours} hours:"]
    parts.append(_columns(head, rows) if rows else "AWS offers none.")
    if found.unanswered:
        parts.append("Not answered:\n" + "\n".join(f"  {sentence}" for sentence in found.unanswered))
    if any(each.id for each in found.offers):
        parts.append("`--buy OFFERING` buys one. Its fee is charged at once, and it cannot be cancelled.")
    return "\n".join(parts)


def confirmation(offer: Offer) -> str:
    """Return a sentence that describes a purchase, for a person to confirm."""
    times = f" from {minute(offer.start)} to {minute(offer.end)}" if offer.start and offer.end else ""
    where = ", ".join(offer.zones) or offer.region
    return f"{offer.kind.value} {offer.id}: {offer.count} nodes in {where}{times}, for {_usd(offer.usd)}, paid now"


def _usd(usd: Decimal | None) -> str:
    return "unknown" if usd is None else f"${usd:,.2f}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
