"""Sessions with the operator's books, played as they are written in `played/` and by extras, in both databases.

They begin with the account `a`, credited 1000 nano-units, and end with an audit. `$ charge key_1 70
model=m lasts=5` writes a request, `$ sql` asks the database, and `$ read only` lets these books write no more.
`tests/ledger/player.py` says more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.ledger.sql.books import Books
from tests import ROOT
from tests.ledger.contract.kit import settlement
from tests.ledger.player import NOTHING, Clock, Session, play_session, read_sessions
from tests.ledger.sql.places import BooksPlace
from tests.ledger.sql.requests import make_item
from tests.support.extras import find_modules

SESSIONS: Final = read_sessions(
    Path(__file__).with_name("played"), *sorted(ROOT.glob("tests/extras/*/books"))
)


class BooksSession(Session):
    def __init__(self, books: Books, clock: Clock, place: BooksPlace) -> None:
        super().__init__(books, clock)
        self._place, self._connection, self._clock = place, books.connection, clock

    async def act(self, verb: str, rest: str) -> Any:
        match verb:
            case "read":
                self._place.refuse_writes(self._connection)
            case "sql":
                return self._connection.execute(rest).fetchall()
            case "charge":
                return self.call(self._charge, rest)
            case _:
                return await super().act(verb, rest)
        return NOTHING

    def _charge(
        self, key_id: str, cost_nano: int | None, *, model: str = "demo/echo", lasts: int = 0
    ) -> str:
        """Write a request that begins now and lasts so long; it is pending if it has no cost."""
        now_ms = self._clock() + lasts
        end = None if cost_nano is None else settlement(cost_nano, ended_ms=now_ms)
        item = make_item(1, key_id, self._clock(), end)
        item.hold.admission = replace(item.hold.admission, model=model)
        self._place.add_requests(self._connection, [item], now_ms)
        return item.hold.admission.request_id


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    books: Books, clock: Clock, place: BooksPlace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in find_modules("rows").values():
        if hasattr(module, "number_ids"):
            module.number_ids(monkeypatch)
    await play_session(*SESSIONS[name], BooksSession(books, clock, place).play)
    with place.open(clock) as again:
        assert again.audit().problems == ()
