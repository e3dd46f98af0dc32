"""Sign-ins of a ledger of version 5, which had one for each account."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.extras.postgres.session import connect
from gateway.extras.postgres.versions import VERSION
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import Opening, StoredPassword
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.totp import TotpBook
from gateway.ledger.opening import open_books
from gateway.ledger.records import DatabaseUrl
from tests.extras.postgres.test_schema import BACK_TO_5, describe, read_version


def test_the_own_sign_ins_of_accounts_are_kept(ledger_url: str) -> None:
    """Passwords, codes, links and sessions go on as they were, under no person's name."""
    location = DatabaseUrl(ledger_url)
    opening = Opening("ses_1", b"s" * 32, "Firefox on Linux", "192.0.2.7")
    with open_books(location) as books:
        books.accounts.create("ann")
        own = PeopleBook(books).read("ann")
        SignInBook(books).set_password("ann", "a hash")
        SignInBook(books).open_by_password(StoredPassword(own, "a hash"), None, opening)
        SignInBook(books).set_link("ann", b"l" * 32, books.clock() + 60_000)
        TotpBook(books).propose(own, b"k" * 20)
        TotpBook(books).confirm(own, b"k" * 20, 7, [b"1" * 32])
        (before,), codes = PeopleBook(books).read_all("ann"), TotpBook(books).read(own)
    with closing(connect(ledger_url)) as session:
        made = describe(session)
        session.run(BACK_TO_5)
        assert describe(session) != made
    with open_books(location) as books:
        (after,) = PeopleBook(books).read_all("ann")
        assert after == replace(before, created_ms=after.created_ms)
        assert TotpBook(books).read(own) == codes
        assert PeopleBook(books).find_hash(own) == "a hash"
        assert TotpBook(books).use_recovery_code(own, b"1" * 32)
        assert SignInBook(books).find_session(opening.digest) is not None
        linked = replace(opening, id="ses_2", digest=b"t" * 32)
        assert SignInBook(books).open_by_link(b"l" * 32, linked) is not None
    with closing(connect(ledger_url)) as session:
        assert (read_version(session), describe(session)) == (VERSION, made)
