"""The verbs of accounts, budgets and keys: what is kept. `verbs.txt` has what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import keys
from gateway.base import ids
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import Conflict
from gateway.ledger.sql.books import Books
from tests.admin.visits import NAME, Clock, read, read_kept

NOW_MS: Final = Clock().now_ms


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
