"""Top-up codes: what is made and kept of them, and what is refused."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.base.money import NANO
from gateway.extras.codes import book
from gateway.extras.codes.book import CodeBook
from gateway.extras.signins import typed
from gateway.ledger.records import Refused
from gateway.ledger.sql.books import Books
from tests.admin.visits import NAME, Clock, read, read_kept
from tests.support.extras import need_extra
from tests.support.rows import each_row

NOW_MS: Final = Clock().now_ms
CODE: Final = re.compile(r"[2-9A-HJ-NP-Z]{4}(-[2-9A-HJ-NP-Z]{4}){3}")
MOST: Final = 10**18


@each_row(
    ("amount_nano", "count", "more", "told"),
    [
        (0, 1, {}, "amount: a code must be worth something"),
        (
            MOST + 1,
            1,
            {},
            "amount: an amount beyond a thousand million is taken for a typing error",
        ),
        (1, 0, {}, "count: a batch has 1 to 1000 codes"),
        (1, 1001, {}, "count: a batch has 1 to 1000 codes"),
        (1, 1, {"expires_ms": NOW_MS}, "expires: the codes' expiry must be in the future"),
        (
            1,
            1,
            {"note": "a\nb"},
            "note: the note may only have printable characters, and no space at its ends",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(
    books: Books, amount_nano: int, count: int, more: dict[str, Any], told: str
) -> None:
    book.make_codes(books, MOST, 1)
    before = books.events.count()
    with pytest.raises(Refused) as refused:
        book.make_codes(books, amount_nano, count, **more)
    assert f"{refused.value.field}: {refused.value}" == told
    assert books.events.count() == before


def make_one(books: Books, expires_ms: int | None = None) -> str:
    (code,) = book.make_codes(books, 5 * NANO, 1, expires_ms=expires_ms).codes
    return code


def test_a_code_has_80_bits_in_symbols_that_cannot_be_misread(books: Books) -> None:
    assert len(set(typed.ALPHABET)) == 32
    assert not set("0O1I") & set(typed.ALPHABET)
    made = book.make_codes(books, 1, 1000).codes
    assert len(set(made)) == 1000
    assert all(CODE.fullmatch(code) for code in made)
    assert set("".join(made)) == {*typed.ALPHABET, "-"}, "every symbol is drawn"


def test_nothing_is_kept_of_a_code_but_its_digest_and_its_end(books: Books, path: Path) -> None:
    made = book.make_codes(books, 5 * NANO, 3, expires_ms=NOW_MS + 1, note="spring")
    rows = read(path, "SELECT digest, last4, created_by, created_ms, note FROM codes ORDER BY id")
    assert rows == [
        (typed.digest_code(code), code[-4:], "cli", NOW_MS, "spring") for code in made.codes
    ]
    kept = read_kept(path)
    for code in made.codes:
        assert code.encode() not in kept
        assert code.replace("-", "").encode() not in kept
        assert code not in repr(made)


def test_unknown_used_void_and_expired_codes_are_told_apart_to_nobody(
    books: Books, clock: Clock
) -> None:
    used, void, expired = make_one(books), make_one(books), make_one(books, NOW_MS + 1)
    book.redeem(books, "root", used)
    _, found = CodeBook(books).read_page("open", None, None, None)
    CodeBook(books).void(next(one.id for one in found if one.last4 == void[-4:]))
    clock.now_ms += 1
    unknown = "2222-2222-2222-2222"
    before, told = books.events.count(), set()
    for text in (used, void, expired, unknown, "", "x", used + "2", used.replace("-", "0")):
        with pytest.raises(Refused) as refused:
            book.redeem(books, NAME, text)
        told.add((str(refused.value), refused.value.code, refused.value.field, type(refused.value)))
    ((_, *parts, _),) = told
    assert parts == ["code_invalid", "code"]
    assert [one.balance_nano for one in books.accounts.read_all()] == [0, 5 * NANO]
    assert books.events.count() == before


def test_a_code_works_until_the_millisecond_it_expires(books: Books, clock: Clock) -> None:
    code = make_one(books, NOW_MS + 10)
    clock.now_ms += 9
    assert book.redeem(books, NAME, code).amount_nano == 5 * NANO


@need_extra("finder")
def test_operators_find_codes_by_what_is_no_secret(books: Books) -> None:
    made = book.make_codes(books, 5 * NANO, 1, note="spring fair")
    finder = import_module("gateway.extras.codes.finding").FINDER
    secret = made.codes[0]
    for text in (secret[-4:].lower(), "FAIR", made.batch):
        (found,) = finder.find(books, text)
        assert found.path == f"/console/codes?batch={made.batch}"
        assert secret[:-5] not in str(found)
    for text in (secret[:9], "fai_", "%"):
        assert finder.find(books, text) == []
