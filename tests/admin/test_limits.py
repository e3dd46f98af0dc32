"""Each limit of an operator's verb: at it the verb works, one beyond it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import accounts, codes, keys
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import Refused
from gateway.ledger.sql.books.books import Books
from tests.support.rows import each_row

Verb = Callable[[Books, int], object]


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    with accounts.open_books(tmp_path / "gateway.db", create=True) as opened:
        accounts.add_account(opened, "a")
        yield opened


def rotate(books: Books, seconds: int) -> object:
    old = keys.add_key(books, "a").key
    return keys.rotate_key(books, old.id, grace_seconds=seconds)


MOST: Final[dict[str, tuple[int, Verb]]] = {
    "characters of an account's name": (
        100,
        lambda books, count: accounts.add_account(books, "n" * count),
    ),
    "characters of a key's name": (
        100,
        lambda books, count: keys.add_key(books, "a", KeyTerms(name="n" * count)),
    ),
    "characters of a note": (
        500,
        lambda books, count: accounts.credit(books, "a", 1, note="n" * count),
    ),
    "characters of an idempotency key": (
        200,
        lambda books, count: accounts.credit(books, "a", 1, idempotency_key="n" * count),
    ),
    "characters of a model's id": (
        200,
        lambda books, count: keys.add_key(books, "a", KeyTerms(models=("m" * count,))),
    ),
    "models of a key": (
        100,
        lambda books, count: keys.add_key(
            books, "a", KeyTerms(models=tuple(map(str, range(count))))
        ),
    ),
    "requests per minute": (
        10**9,
        lambda books, count: keys.add_key(books, "a", KeyTerms(requests_per_minute=count)),
    ),
    "the last moment of the year 9999": (
        253_402_300_799_999,
        lambda books, ms: keys.add_key(books, "a", KeyTerms(expires_ms=ms)),
    ),
    "seconds of grace": (7 * 24 * 3600, rotate),
    "codes of a batch": (1000, lambda books, count: codes.make_codes(books, 1, count)),
}


@each_row(("most", "verb"), MOST.values())
def test_the_limit_is_accepted_and_one_more_refused(books: Books, most: int, verb: Verb) -> None:
    verb(books, most)
    with pytest.raises(Refused):
        verb(books, most + 1)
