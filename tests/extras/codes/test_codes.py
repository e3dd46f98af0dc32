"""Top-up codes: what is made and kept of them, and what is refused."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from gateway.base.money import NANO
from gateway.extras.codes import book
from gateway.extras.signins import typed
from gateway.ledger.records import Refused
from gateway.ledger.sql.books import Books
from tests.admin.visits import Clock, read, read_kept
from tests.support.extras import need_extra

NOW_MS: Final = Clock().now_ms
CODE: Final = re.compile(r"[2-9A-HJ-NP-Z]{4}(-[2-9A-HJ-NP-Z]{4}){3}")


def test_a_code_is_worth_no_more_than_an_amount_may_be(books: Books) -> None:
    with pytest.raises(Refused, match="beyond a thousand million"):
        book.make_codes(books, 10**18 + 1, 1)


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


@need_extra("finder")
def test_operators_find_codes_by_what_is_no_secret(books: Books) -> None:
    made = book.make_codes(books, 5 * NANO, 1, note="spring fair")
    finder = import_module("gateway.extras.codes.console").make_finder()
    secret = made.codes[0]
    for text in (secret[-4:].lower(), "FAIR", made.batch):
        (found,) = finder.find(books, text)
        assert found.path == f"/console/codes?batch={made.batch}"
        assert secret[:-5] not in str(found)
    for text in (secret[:9], "fai_", "%"):
        assert finder.find(books, text) == []
