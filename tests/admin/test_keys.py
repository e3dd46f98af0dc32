"""The verbs of accounts, budgets, keys, tokens and top-up codes: what is kept. `verbs.txt` has what they refuse."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway import ids
from gateway.admin import keys
from gateway.ledger.key_records import Allowance, KeyTerms
from gateway.ledger.records import Conflict, Refused
from gateway.ledger.signin_records import TokenTerms
from gateway.ledger.sql.books import Books
from gateway.money import NANO
from tests.admin.visits import NAME, Clock, read
from tests.support.rows import each_row

NOW_MS: Final = Clock().now_ms
A_DAY: Final = Allowance(NANO, "day")
CODE: Final = re.compile(r"[2-9A-HJ-NP-Z]{4}(-[2-9A-HJ-NP-Z]{4}){3}")


def read_kept(path: Path) -> bytes:
    """Return all that the files of the ledger have."""
    return b"".join(one.read_bytes() for one in path.parent.iterdir())


# ---- what is kept --------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_kept_as_a_digest(books: Books, path: Path) -> None:
    terms = KeyTerms(("m1", "m/2", "m1"), 0, 100, 3, "laptop", 10, 2**47)
    new = keys.add_key(books, NAME, terms)
    assert ids.is_well_formed(new.secret)
    assert new.secret not in repr(new)
    assert new.key.display == f"sk-ru-…{new.secret[-4:]}"
    assert new.key.id.startswith("key_")
    assert new.key.terms == replace(terms, models=("m1", "m/2"))
    assert (new.key.account, new.key.spent_nano, new.key.revoked_ms) == (NAME, 0, None)
    assert books.keys.read_all() == [new.key]
    assert read(path, "SELECT digest FROM keys") == [(ids.digest(new.secret),)]
    assert new.secret[6:-4].encode() not in read_kept(path)


def test_a_rotation_keeps_the_terms_and_ends_the_old_key(books: Books, path: Path) -> None:
    old = keys.add_key(books, NAME, KeyTerms(("m",), concurrency=2, name="n", cap_nano=100)).key
    read(path, "UPDATE keys SET spent_nano = 30")
    new = keys.rotate_key(books, old.id, grace_seconds=60)
    by_id = {key.id: key for key in books.keys.read_all(NAME)}
    assert new.key.terms == old.terms
    assert new.key.spent_nano == by_id[old.id].spent_nano == 30, "they share the cap"
    assert by_id[old.id].terms.expires_ms == NOW_MS + 60_000
    with pytest.raises(Conflict, match=f"replaced by {new.key.id}"):
        keys.rotate_key(books, old.id)


def test_a_token_is_kept_as_its_hash(books: Books, path: Path) -> None:
    made = keys.add_token(books, TokenTerms("shop", "accounts"))
    assert re.fullmatch(r"gwt_[\w-]{43}", made.secret)
    assert made.token.display == f"gwt_…{made.secret[-4:]}"
    assert made.secret not in repr(made)
    assert made.secret.encode() not in read_kept(path)
    found = keys.find_token(books, made.secret)
    assert found is not None
    assert found.id == made.token.id


@each_row("secret", ["", "gwt_", f"gwt_{'A' * 43}", f"gws_{'A' * 43}", "\udc80", "'--"])
def test_what_is_no_token_is_none(books: Books, secret: str) -> None:
    assert keys.find_token(books, secret) is None


# ---- top-up codes --------------------------------------------------------------------------------


def make_one(books: Books, expires_ms: int | None = None) -> str:
    (code,) = keys.make_codes(books, 5 * NANO, 1, expires_ms=expires_ms).codes
    return code


def test_a_code_has_80_bits_in_symbols_that_cannot_be_misread(books: Books) -> None:
    assert len(set(keys.ALPHABET)) == 32
    assert not set("0O1I") & set(keys.ALPHABET)
    made = keys.make_codes(books, 1, 1000).codes
    assert len(set(made)) == 1000
    assert all(CODE.fullmatch(code) for code in made)
    assert set("".join(made)) == {*keys.ALPHABET, "-"}, "every symbol is drawn"


def test_nothing_is_kept_of_a_code_but_its_digest_and_its_end(books: Books, path: Path) -> None:
    made = keys.make_codes(books, 5 * NANO, 3, expires_ms=NOW_MS + 1, note="spring")
    rows = read(path, "SELECT digest, last4, created_by, created_ms, note FROM codes ORDER BY id")
    assert rows == [
        (keys.digest_code(code), code[-4:], "cli", NOW_MS, "spring") for code in made.codes
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
    keys.redeem(books, "root", used)
    _, found = books.codes.read_page("open", None, None, None)
    books.codes.void(next(one.id for one in found if one.last4 == void[-4:]))
    clock.now_ms += 1
    unknown = "2222-2222-2222-2222"
    before, told = books.events.count(None), set()
    for text in (used, void, expired, unknown, "", "x", used + "2", used.replace("-", "0")):
        with pytest.raises(Refused) as refused:
            keys.redeem(books, NAME, text)
        told.add((str(refused.value), refused.value.code, refused.value.field, type(refused.value)))
    ((_, *parts, _),) = told
    assert parts == ["code_invalid", "code"]
    assert [one.balance_nano for one in books.accounts.read_all()] == [0, 5 * NANO]
    assert books.events.count(None) == before


def test_a_code_works_until_the_millisecond_it_expires(books: Books, clock: Clock) -> None:
    code = make_one(books, NOW_MS + 10)
    clock.now_ms += 9
    assert keys.redeem(books, NAME, code).amount_nano == 5 * NANO
