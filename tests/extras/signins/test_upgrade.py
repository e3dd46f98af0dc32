"""Sign-ins of a ledger of version 14, which had one for each account, go on as the accounts' own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import Opening, SignIn, SignInView, StoredPassword, TotpView
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.totp import TotpBook
from gateway.ledger.sqlite.books import SqliteBooks
from tests.long.million import ACCOUNT, END_MS, History, fill, take_back

HISTORY: Final = History(requests=60, days=3, models=3, keys=4, models_per_key=2)
LINK: Final = b"l" * 32
OPENING: Final = Opening("ses_1", b"s" * 32, "Firefox on Linux", "192.0.2.7")


def test_the_own_sign_ins_of_accounts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with fill(path, HISTORY).open_books() as books:
        own = PeopleBook(books).read(ACCOUNT)
        SignInBook(books).set_password(ACCOUNT, "a hash")
        SignInBook(books).open_by_password(StoredPassword(own, "a hash"), None, OPENING)
        SignInBook(books).set_link(ACCOUNT, LINK, END_MS + 9)
        TotpBook(books).propose(own, b"k" * 20)
        TotpBook(books).confirm(own, b"k" * 20, 7, [b"1" * 32, b"2" * 32])
    take_back(path)
    with SqliteBooks(path, clock=lambda: END_MS + 1) as books:
        (view,) = PeopleBook(books).read_all(ACCOUNT)
        assert view == SignInView(SignIn(1, ACCOUNT), END_MS, END_MS, END_MS, 1, END_MS + 9)
        assert TotpBook(books).read(own) == TotpView(b"k" * 20, 7, END_MS, 2)
        assert TotpBook(books).use_recovery_code(own, b"1" * 32)
        opened = SignInBook(books).find_session(OPENING.digest)
        second = replace(OPENING, id="ses_2", digest=b"t" * 32)
        linked = SignInBook(books).open_by_link(LINK, second)
    assert opened is not None
    assert linked is not None
    assert opened.signin == linked.signin == own
