"""The verbs of keys: shown once, edited, replaced, and what their terms may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from gateway import apikeys
from gateway.admin import accounts, keys
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import MAX_AMOUNT_NANO
from gateway.times import DAY_MS
from tests.ledger.kit import query


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def books(path: Path) -> Iterator[Books]:
    with accounts.open_books(path, create=True) as opened:
        yield opened


def test_key_is_shown_once_and_kept_as_a_digest(books: Books, path: Path) -> None:
    accounts.add_account(books, "a")
    new = keys.add_key(
        books,
        "a",
        KeyTerms(
            name="laptop",
            expires_ms=2**47,
            models=("m1", "m/2", "m1"),
            requests_per_minute=0,
            tokens_per_minute=100,
            concurrency=3,
            cap_nano=10,
        ),
    )
    assert apikeys.is_well_formed(new.secret)
    assert new.secret not in repr(new)
    assert new.key.display == f"sk-ru-…{new.secret[-4:]}"
    assert new.key.id.startswith("key_")
    assert new.key.terms == KeyTerms(("m1", "m/2"), 0, 100, 3, "laptop", 10, 2**47)
    assert (new.key.account, new.key.spent_nano, new.key.revoked_ms) == ("a", 0, None)
    assert books.keys.read_all() == [new.key]
    assert query(path, "SELECT digest FROM keys") == [(apikeys.digest(new.secret),)]
    assert new.secret[6:-4].encode() not in b"".join(
        one.read_bytes() for one in path.parent.iterdir()
    )


BAD_TERMS: list[KeyTerms] = [
    KeyTerms(expires_ms=1),
    KeyTerms(models=()),
    KeyTerms(models=("",)),
    KeyTerms(models=("a\n",)),
    KeyTerms(models=tuple(f"m{number}" for number in range(101))),
    KeyTerms(models=tuple(f"{number:0200}" for number in range(21))),
    KeyTerms(models=tuple(f"{number:03}{'é' * 197}" for number in range(11))),
    KeyTerms(requests_per_minute=-1),
    KeyTerms(tokens_per_minute=10**9 + 1),
    KeyTerms(concurrency=-1),
    KeyTerms(cap_nano=0),
    KeyTerms(cap_nano=MAX_AMOUNT_NANO + 1),
]


@pytest.mark.parametrize("terms", BAD_TERMS)
def test_key_terms_are_checked(books: Books, terms: KeyTerms) -> None:
    accounts.add_account(books, "a")
    with pytest.raises(Refused):
        keys.add_key(books, "a", terms)
    assert books.keys.read_all() == []


def test_rotation_keeps_the_terms_and_ends_the_old_key(path: Path) -> None:
    clock = count(1_000_000)
    with SqliteBooks(path, create=True, clock=clock.__next__) as books:
        accounts.add_account(books, "a")
        old = keys.add_key(
            books, "a", KeyTerms(name="n", models=("m",), concurrency=2, cap_nano=100)
        ).key
        books.connection.execute("UPDATE keys SET spent_nano = 30")
        new = keys.rotate_key(books, old.id, grace_seconds=60)
        by_id = {key.id: key for key in books.keys.read_all("a")}
        assert new.key.terms == replace(by_id[old.id].terms, expires_ms=None)
        assert new.key.spent_nano == by_id[old.id].spent_nano == 30, "they share the cap"
        ended = by_id[old.id].terms.expires_ms
        assert ended is not None
        assert 1_060_000 <= ended < 1_060_100
        with pytest.raises(Conflict, match=f"replaced by {new.key.id}"):
            keys.rotate_key(books, old.id)
        for grace in (-1, 7 * 24 * 3600 + 1):
            with pytest.raises(Refused, match="grace"):
                keys.rotate_key(books, new.key.id, grace_seconds=grace)


def test_dead_keys_are_not_rotated(path: Path) -> None:
    clock = count(1_000_000)
    with SqliteBooks(path, create=True, clock=clock.__next__) as books:
        accounts.add_account(books, "a")
        expired = keys.add_key(books, "a", KeyTerms(expires_ms=1_000_010)).key
        revoked = keys.add_key(books, "a").key
        first = books.keys.revoke(revoked.id).revoked_ms
        assert first is not None
        assert books.keys.revoke(revoked.id).revoked_ms == first
        with pytest.raises(Conflict, match="revoked"):
            keys.rotate_key(books, revoked.id)
        while next(clock) < 1_000_010:
            pass
        with pytest.raises(Conflict, match="expired"):
            keys.rotate_key(books, expired.id)


def test_rotation_never_lengthens_a_life(path: Path) -> None:
    clock = count(1_000_000)
    with SqliteBooks(path, create=True, clock=clock.__next__) as books:
        accounts.add_account(books, "a")
        old = keys.add_key(books, "a", KeyTerms(expires_ms=1_005_000)).key
        new = keys.rotate_key(books, old.id, grace_seconds=60)
        assert new.key.terms.expires_ms == 1_005_000
        assert [key.terms.expires_ms for key in books.keys.read_all()] == [1_005_000] * 2


def test_an_edit_changes_what_is_named_alone(books: Books) -> None:
    accounts.add_account(books, "a")
    old = keys.add_key(
        books, "a", KeyTerms(name="n", models=("m",), concurrency=2, cap_nano=100)
    ).key
    assert keys.edit_key(books, old.id, {"name": "x"}) == replace(
        old, terms=replace(old.terms, name="x")
    )
    ends_ms = books.clock() + DAY_MS
    edited = keys.edit_key(
        books, old.id, {"cap_nano": None, "expires_ms": ends_ms, "models": ("a", "b", "a")}
    )
    assert edited == replace(
        old, terms=KeyTerms(("a", "b"), name="x", concurrency=2, expires_ms=ends_ms)
    )


def test_the_key_of_another_account_is_as_unknown_as_none(books: Books) -> None:
    mine, theirs = (accounts.add_account(books, name).id for name in "ab")
    key = keys.add_key(books, "b").key
    deeds: list[Callable[[str], object]] = [
        lambda key_id: books.keys.read(key_id, account_id=mine),
        lambda key_id: keys.edit_key(books, key_id, {"name": "x"}, account_id=mine),
        lambda key_id: keys.rotate_key(books, key_id, account_id=mine),
        lambda key_id: books.keys.revoke(key_id, account_id=mine),
    ]
    for deed in deeds:
        for key_id in (key.id, "key_x"):
            with pytest.raises(NotFound) as refused:
                deed(key_id)
            assert str(refused.value) == f"there is no key '{key_id}'"
    assert books.keys.read(key.id, account_id=theirs) == key
