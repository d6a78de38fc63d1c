"""The price of a platform as a document and as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from trainway.spec.cost.price import HOURS_PER_MONTH, NOT_COUNTED, PriceLine, price_lines, total
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.prices import Item, PriceBook, PriceSource, listed_price
from trainway.spec.platform import Platform

JsonObject = dict[str, Any]


def prices_of(platform: Platform, catalogue: Catalogue, *, live: bool) -> PriceBook:
    """Return the prices for the lines of a platform, as `prices_for` does."""
    return prices_for((line.item for line in price_lines(platform, catalogue, listed_price)), live=live)


def prices_for(items: Iterable[Item], *, live: bool) -> PriceBook:
    """Return the prices of the table, or if `live`, those that AWS answers now for these items.

    Raises UsageError if AWS cannot be asked.
    """
    if not live:
        return listed_price
    from trainway.price.live import live_prices

    return live_prices(items)


def price_document(platform: Platform, catalogue: Catalogue, prices: PriceBook) -> JsonObject:
    """Return the lines of a platform, their sums, and the sources of the prices, in US dollars.

    Each sum has the names of the lines whose price is unknown, which it leaves out. The sums with bounds have the
    bounds of unknown prices instead.
    """
    lines = price_lines(platform, catalogue, prices)
    return {
        "currency": "USD",
        "region": platform.region,
        "hours_per_month": HOURS_PER_MONTH,
        "lines": [_line(each) for each in lines],
        "total": _total(lines),
        "total_at_most": _total(lines, most=True),
        "total_with_bounds": _total(lines, bounds=True),
        "total_at_most_with_bounds": _total(lines, most=True, bounds=True),
        "not_counted": NOT_COUNTED,
        "sources": [source.model_dump(mode="json") for source in _sources(lines)],
    }


def price_text(document: JsonObject) -> str:
    """Return the document as a table, with the unknown prices and the sources below it."""
    head = ["price", "", "each", "an hour", "a month", "at most an hour"]
    rows = [
        [
            line["name"],
            _what(line),
            _each(line),
            *(_cents(line, figure) for figure in ("usd_per_hour", "usd_per_month", "at_most_usd_per_hour")),
        ]
        for line in document["lines"]
    ]
    now, most = document["total"], document["total_at_most"]
    is_whole = not (now["without"] or most["without"])
    rows.append(_sums("total" if is_whole else "total of the known", now, most))
    if not is_whole:
        now, most = document["total_with_bounds"], document["total_at_most_with_bounds"]
        is_bounded = not (now["without"] or most["without"])
        rows.append(_sums("with the bounds" if is_bounded else "with the bounds that are known", now, most))
    parts = [_columns(head, rows)]
    if unknown := [line["unknown"] for line in document["lines"] if line["unknown"]]:
        parts.append(
            "Not in the total of the known:\n" + "\n".join(f"  {sentence}" for sentence in dict.fromkeys(unknown))
        )
    if notes := [f"{line['name']}: {line['note']}" for line in document["lines"] if line["note"]]:
        parts.append("\n".join(notes))
    sources = "\n".join(f"  {each['as_of']:10}  {each['title']}" for each in document["sources"])
    parts.append(
        f"US dollars, without tax and discounts. A month has {document['hours_per_month']} hours.\n"
        f"Not counted, because they are billed by use: {document['not_counted']}.\nPrices as of:\n{sources}"
    )
    return "\n".join(parts)


def _line(line: PriceLine) -> JsonObject:
    return {
        "name": line.name,
        "what": line.what,
        "quantity": line.quantity,
        "most": line.most,
        "unit": line.item.unit,
        "usd_each": None if line.price is None else float(line.price.usd),
        "bound_usd_each": None if line.bound is None else float(line.bound.usd),
        "usd_per_hour": _number(line.per_hour()),
        "usd_per_month": _number(line.per_month()),
        "at_most_usd_per_hour": _number(line.per_hour(most=True)),
        "at_most_usd_per_month": _number(line.per_month(most=True)),
        "bound_usd_per_hour": _bound(line, line.per_hour(bounds=True)),
        "bound_usd_per_month": _bound(line, line.per_month(bounds=True)),
        "bound_at_most_usd_per_hour": _bound(line, line.per_hour(most=True, bounds=True)),
        "as_of": None if line.price is None else line.price.source.as_of,
        "unknown": line.unknown or None,
        "note": line.note or None,
    }


def _bound(line: PriceLine, usd: Decimal | None) -> float | None:
    return None if line.bound is None else _number(usd)


def _total(lines: Sequence[PriceLine], *, most: bool = False, bounds: bool = False) -> JsonObject:
    found = total(lines, most=most, bounds=bounds)
    return {
        "usd_per_hour": float(round(found.per_hour, 6)),
        "usd_per_month": float(round(found.per_month, 6)),
        "without": list(found.without),
    }


def _sums(name: str, now: JsonObject, most: JsonObject) -> list[str]:
    figures = (now["usd_per_hour"], now["usd_per_month"], most["usd_per_hour"])
    return [name, "", "", *(f"{usd:,.2f}" for usd in figures)]


def _sources(lines: Iterable[PriceLine]) -> list[PriceSource]:
    """Return the sources of the prices, each once, the newest first."""
    used = {known.source for line in lines if (known := line.price or line.bound) is not None}
    return sorted(used, key=lambda source: (source.as_of, source.title), reverse=True)


def _number(usd: Decimal | None) -> float | None:
    return None if usd is None else float(round(usd, 6))


def _what(line: JsonObject) -> str:
    """Return the quantity and the thing. Storage is counted in GB, throughput in MB/s, and other things in pieces."""
    counted = line["quantity"] if line["quantity"] == line["most"] else f"{line['quantity']}–{line['most']}"
    if unit := line["unit"].removesuffix("month").removesuffix("-").replace("hour", ""):
        return f"{counted} {unit} of {line['what']}"
    return str(line["what"]) if line["most"] == 1 else f"{counted} × {line['what']}"


def _each(line: JsonObject) -> str:
    if line["usd_each"] is not None:
        return f"{line['usd_each']:.10g}"
    return "unknown" if line["bound_usd_each"] is None else f"≤ {line['bound_usd_each']:.4g}"


def _cents(line: JsonObject, figure: str) -> str:
    if line[figure] is not None:
        return f"{line[figure]:,.2f}"
    bound = line[f"bound_{figure}"]
    return "unknown" if bound is None else f"≤ {bound:,.2f}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns as wide as their widest cell, the names to the left and the figures to the right."""
    cells = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )
