"""The search for top-up codes by operators: by the last characters, a batch, or a note. Codes themselves are secret."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from gateway.base.money import format_amount
from gateway.extras.codes.book import CodeBook
from gateway.extras.finder.records import MOST, Finder, Found
from gateway.ledger.sql.books import Books


def _find(books: Books, text: str) -> list[Found]:
    now_ms = books.clock()
    return [
        Found(
            one.display,
            f"{format_amount(one.amount_nano)}, {one.status(now_ms)}{one.note and f', {one.note}'}",
            f"/console/codes?{urlencode({'batch': one.batch})}",
        )
        for one in CodeBook(books).search(text, MOST)
    ]


FINDER: Final = Finder("Codes", _find)
