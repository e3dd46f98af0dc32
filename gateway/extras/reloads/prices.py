"""Prices are compared with those seen last, at each start and reload; a change is an event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.admin.fields import name_process
from gateway.base.money import PRICES, format_amount, format_factor
from gateway.base.prices import AppliedPrice, PriceList, read_price
from gateway.ledger.records import SYSTEM, Actor
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part

_KEEP: Final = """
    INSERT INTO model_prices (model, prices) VALUES (?, ?)
    ON CONFLICT (model) DO UPDATE SET prices = excluded.prices
"""
PRICE_CHANGE: Final = "price.change"
MAX_TOLD: Final = 20
"""Amounts that an event names: it is kept for ever, and a list may have many rules."""


class SeenPrices(Part):
    """The prices that each model had when it was seen last."""

    def read(self) -> dict[str, str]:
        return dict(self._database.fetch("SELECT model, prices FROM model_prices"))

    def keep(self, model: str, prices: str) -> None:
        self._database.change(_KEEP, (model, prices))


def note_prices(books: Books, prices: Mapping[str, PriceList], pid: int) -> None:
    """Append an event for each model whose prices have changed since it was seen last.

    A model that is seen for the first time, at whatever start or reload, makes no event.
    """
    book, books.actor = SeenPrices(books), Actor(SYSTEM.name, name_process(pid))
    with books.changing():
        seen = book.read()
        for model, price_list in prices.items():
            after = price_list.applied
            before = _maybe_parse(seen[model]) if model in seen else None
            if before == after:
                continue
            book.keep(model, json.dumps([one.text for one in after]))
            if before is not None:
                detail = _describe(before, after)
                books.note(PRICE_CHANGE, account=None, target=model, detail=detail)


def _maybe_parse(text: str) -> tuple[AppliedPrice, ...] | None:
    """Read the prices seen last; None if a later version stored them, which has more amounts."""
    try:
        return tuple(map(read_price, json.loads(text)))
    except (TypeError, ValueError):
        return None


def _describe(before: Iterable[AppliedPrice], after: Iterable[AppliedPrice]) -> str:
    """Name each difference with the old and the new amount."""
    old, new = dict(_list_amounts(before)), dict(_list_amounts(after))
    changes = [
        f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}"
        for name in old | new
        if old.get(name) != new.get(name)
    ]
    more = [f"and {len(changes) - MAX_TOLD} more"] if len(changes) > MAX_TOLD else []
    return ", ".join((*changes[:MAX_TOLD], *more)) or "the order of its rules"


def _list_amounts(prices: Iterable[AppliedPrice]) -> Iterator[tuple[str, str]]:
    for one in prices:
        place, price = f" ({one.rule})" if one.rule else "", one.price
        amounts = {name: getattr(price, name) for name in PRICES} | dict(price.tools)
        for name, nano in amounts.items():
            if nano is not None:
                yield f"{name}{place}", format_amount(nano)
        if price.reported is not None:
            yield f"reported{place}", format_factor(price.reported)
