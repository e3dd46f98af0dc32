"""Counts of a serving process, and what its books show of them later: played from `played/`.

    $ observer.note_refusal 1 rate_limit_exceeded "" req_1     of the node that serves

`tests/ledger/contract/test_played.py` says more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gateway.extras.observations.observer import Observer
from gateway.extras.observations.serving import observe
from gateway.ledger.serving.ledger import ServingLedger
from tests.ledger.contract import conftest
from tests.ledger.contract.kit import Place
from tests.ledger.contract.test_played import Served
from tests.ledger.player import Clock, play_session, read_sessions

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
place: Final = conftest.place
pytest_generate_tests: Final = conftest.pytest_generate_tests


class Observed(Served):
    _observer: Observer
    _observed: ServingLedger | None = None

    async def act(self, verb: str, rest: str) -> Any:
        if not verb.startswith("observer."):
            return await super().act(verb, rest)
        if self._observed is not self._ledger:
            self._observed, self._observer = self._ledger, observe(self._ledger)
        return self.call(getattr(self._observer, verb.removeprefix("observer.")), rest)


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_as_it_is_written(place: Place, name: str) -> None:
    clock = Clock()
    with place.storage.open_books(clock=clock) as books:
        books.accounts.create("a", credit_nano=1000)
        session = Observed(place, books, clock)
        try:
            await play_session(*SESSIONS[name], session.play)
        finally:
            await session.close()
