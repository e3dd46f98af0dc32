"""Sessions with the books of who signs in, played as they are written in `played/`, in both databases.

`a/dana` is a sign-in, and `s` a session or how one is opened. A sign-in has three sessions at most.
`tests/ledger/sql/test_played.py` says more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from gateway.extras.signins import sessions
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import Opening, SessionView, SignIn
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.totp import TotpBook
from gateway.ledger.sql.books import Books
from tests.ledger.player import Clock, digest, play_session, read_sessions
from tests.ledger.sql.places import BooksPlace
from tests.ledger.sql.test_played import BooksSession

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
SEEN: Final = {"device": "Firefox on Linux", "address": "192.0.2.7"}


class SignInSession(BooksSession):
    parts: ClassVar = {"people": PeopleBook, "signins": SignInBook, "totp": TotpBook}

    def __init__(self, books: Books, clock: Clock, place: BooksPlace) -> None:
        super().__init__(books, clock, place)
        self.words[SignIn] = lambda name: PeopleBook(books).read(*name.split("/"))
        self.words[SessionView] = lambda id_: SignInBook(books).find_session(digest(id_))

    def make(self, kind: Any, value: Any) -> Any:
        if kind is Opening:
            value = value if isinstance(value, dict) else {"id": value}
            value = {"digest": value["id"], **SEEN, **value}
        return super().make(kind, value)


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    books: Books, clock: Clock, place: BooksPlace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    await play_session(*SESSIONS[name], SignInSession(books, clock, place).play)
    with place.open(clock) as again:
        assert again.audit().problems == ()
