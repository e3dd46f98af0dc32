"""Keys: what a replaced, revoked or expired one may still do, and how changes are noted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.ledger.key_records import KeyChanges, KeyTerms
from gateway.ledger.records import Conflict, StoredSecret
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks
from tests.support.rows import each_row

NEW = StoredSecret("key_new", b"n" * 32, "last")


def test_a_replaced_key_can_neither_be_replaced_again_nor_live_longer(books: AnyBooks) -> None:
    old = key_id_of(create_key(books, "a"))
    books.keys.replace(old, NEW, grace_ms=1000)
    deeds: tuple[Callable[[], object], ...] = (
        lambda: books.keys.replace(old, StoredSecret("key_x", b"x" * 32, "last"), grace_ms=5),
        lambda: books.keys.edit(old, {"expires_ms": None}),
    )
    for deed in deeds:
        with pytest.raises(Conflict) as refusal:
            deed()
        assert refusal.value.code == "already_replaced"
    assert books.keys.edit(old, {"name": "old"}).terms.expires_ms == NOW_MS + 1000
    assert books.keys.read(old).replaced_by == NEW.id


def test_a_grace_is_no_longer_than_the_key_had(books: AnyBooks) -> None:
    old = key_id_of(create_key(books, "a", KeyTerms(expires_ms=NOW_MS + 10)))
    books.keys.replace(old, NEW, grace_ms=1000)
    assert books.keys.read(old).terms.expires_ms == NOW_MS + 10


@each_row("ended", ["revoked", "expired"])
def test_a_key_that_ended_stays_as_it_is(books: AnyBooks, clock: Clock, ended: str) -> None:
    key_id = key_id_of(create_key(books, "a", KeyTerms(expires_ms=NOW_MS + 1)))
    if ended == "revoked":
        books.keys.revoke(key_id)
    clock.now_ms += 1
    deeds: tuple[Callable[[], object], ...] = (
        lambda: books.keys.edit(key_id, {"expires_ms": None}),
        lambda: books.keys.replace(key_id, NEW, grace_ms=0),
    )
    for deed in deeds:
        with pytest.raises(Conflict) as refusal:
            deed()
        assert refusal.value.code == "key_dead"
    assert books.keys.read(key_id).status(clock()) == ended


def test_changes_are_described_without_what_did_not_change(books: AnyBooks) -> None:
    key_id = key_id_of(create_key(books, "a"))
    said: list[tuple[KeyChanges, str]] = [
        ({"name": "n"}, "name 'n'"),
        ({"cap_nano": 10**9, "expires_ms": NOW_MS + 1}, "cap 1.00; expires 2023-11-14 22:13 UTC"),
        ({"cap_nano": None, "expires_ms": None}, "cap none; expires never"),
        ({"models": ("m", "n")}, "2 models"),
        ({"models": None}, "all models"),
    ]
    for changes, detail in said:
        books.keys.edit(key_id, changes)
        assert books.events.read_page("key.edit", None, 1)[0].detail == detail


def test_pages_are_from_the_newest_and_can_leave_out_what_ended(
    books: AnyBooks, clock: Clock
) -> None:
    key_ids = []
    for _ in range(3):
        key_ids.append(key_id_of(create_key(books, "a")))
        clock.now_ms += 1
    books.keys.revoke(key_ids[1])
    total, page = books.keys.read_page(1, live_at_ms=None, after=None, limit=2)
    assert (total, [key.id for key in page]) == (3, key_ids[:0:-1])
    after = (page[-1].created_ms, page[-1].id)
    assert books.keys.read_page(1, live_at_ms=None, after=after, limit=2)[1][0].id == key_ids[0]
    total, page = books.keys.read_page(1, live_at_ms=clock(), after=None, limit=9)
    assert (total, [key.id for key in page]) == (2, [key_ids[2], key_ids[0]])
