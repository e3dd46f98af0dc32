"""Sessions with a serving ledger and its books, played as they are written in `played/` and by extras.

    $ serve one                         serve as the node `one`, or go on with it; `stop` ends it
    $ hold req_1 key_1 100              or what is refused; `stream=true`, `model=m`, `full_nano=400`
    $ settle req_1 70 ended_ms="+5"     also `void req_1`; `confirm`, `admit` and `raise req_1 500`
    $ charge key_1 70                   hold as much, and settle
    $ begin req_1                       confirm it, and go on; `$ wait req_1` tells what came of it
    $ resolve req_1                     wait until nothing is held for it any more
    $ refresh                           hear of what others changed
    $ told                              how often extras were told of a change by this node
    $ key key_1 | spent_nano            what this node's memory has; `$ held req_1` a hold
    $ ledger.read_receipt req_1 | state

All else is asked of the books. Sessions in `nodes.txt` need several nodes. In the end the books are
sound. `tests/ledger/player.py` says more.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.base.turns import spawn
from gateway.ledger.base import COMMIT_SECONDS, Hold, Key
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from tests import ROOT
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import Place, admission, settlement, until
from tests.ledger.player import NOTHING, Clock, Session, digest, play_session, read_sessions

SESSIONS: Final = read_sessions(
    Path(__file__).with_name("played"), *sorted(ROOT.glob("tests/extras/*/contract"))
)
OF_NODES: Final = [name for name in SESSIONS if name.startswith("nodes: ")]


class Served(Session):
    def __init__(self, place: Place, books: Books, clock: Clock) -> None:
        super().__init__(books, clock)
        self._place, self._clock = place, clock
        self._nodes: dict[str, tuple[ServingLedger, AsyncExitStack]] = {}
        self._node = ""
        self._told = Counter[str]()
        self._holds: dict[str, Hold] = {}
        self._numbers = count(1)
        self._confirming: asyncio.Task[None]
        self.words[Key] = self._find_key

    @property
    def _ledger(self) -> ServingLedger:
        return self._nodes[self._node][0]

    def _find_key(self, word: str) -> Key | None:
        return self._ledger.find_key(digest(word))

    async def close(self) -> None:
        for _, stack in self._nodes.values():
            await stack.aclose()

    async def act(self, verb: str, rest: str) -> Any:
        word, _, values = rest.partition(" ")
        if verb.startswith("ledger."):
            found = getattr(self._ledger, verb.removeprefix("ledger."))
            answer = self.call(found, rest) if callable(found) else found
            return await answer if inspect.isawaitable(answer) else answer
        match verb:
            case "serve":
                await self._serve(word)
            case "stop":
                await self._nodes.pop(self._node)[1].aclose()
            case "refresh":
                await self._ledger.refresh()
            case "told":
                return self._told[self._node]
            case "hold":
                self._holds[word] = self._hold(word, values)
            case "charge":
                hold = self._hold(
                    f"req_{word}_{next(self._numbers)}", f"{word} {values.split()[0]}"
                )
                await self._settle(hold, values)
            case "key":
                return self._find_key(word)
            case _ if word in self._holds and "." not in verb:
                return await self._go_on(verb, self._holds[word], values)
            case _:
                return await super().act(verb, rest)
        return NOTHING

    async def _go_on(self, verb: str, hold: Hold, values: str) -> Any:
        match verb:
            case "settle":
                await self._settle(hold, values)
            case "void":
                await self._settle(hold, "0 outcome=upstream_error")
            case "confirm":
                await self._ledger.confirm(hold)
            case "admit":
                await self._ledger.wait_admitted(hold)
            case "begin":
                self._confirming = spawn(self._ledger.confirm(hold), name="confirm")
                await asyncio.sleep(0)
            case "wait":
                await self._confirming
            case "resolve":
                await until(lambda: hold.resolved)
            case "raise":
                self._ledger.raise_hold(hold, int(values))
            case _:
                return hold
        return NOTHING

    async def _serve(self, name: str) -> None:
        if name not in self._nodes:
            stack = AsyncExitStack()
            served = self._place.storage.serve(clock=self._clock, commit_seconds=COMMIT_SECONDS)
            ledger = await stack.enter_async_context(served)
            ledger.change_watchers.append(partial(self._told.update, (name,)))
            self._nodes[name] = ledger, stack
        self._node = name

    def _hold(self, request_id: str, values: str) -> Hold:
        key_id, _, values = values.partition(" ")
        values, _, model = values.partition(" model=")
        known = {} if " id_=" in values else {"id_": request_id}
        asked = self.call(admission, values, started_ms=self._clock(), **known)
        key = self._find_key(key_id)
        assert key is not None
        return self._ledger.hold(key, replace(asked, model=model or asked.model))

    async def _settle(self, hold: Hold, values: str) -> None:
        now = {} if "ended_ms" in values else {"ended_ms": self._clock()}
        await self._ledger.settle(hold, self.call(settlement, values, **now))


async def play(place: Place, name: str) -> None:
    clock = Clock()
    with place.storage.open_books(clock=clock) as books:
        books.accounts.create("a", credit_nano=1000)
        session = Served(place, books, clock)
        try:
            await play_session(*SESSIONS[name], session.play)
        finally:
            await session.close()
        assert books.audit().problems == ()


@pytest.mark.parametrize("name", [name for name in SESSIONS if name not in OF_NODES])
async def test_a_session_goes_as_it_is_written(place: Place, name: str) -> None:
    await play(place, name)


@pytest.mark.parametrize("name", OF_NODES)
@needs(Needs.NODES)
async def test_a_session_of_nodes_goes_as_it_is_written(place: Place, name: str) -> None:
    await play(place, name)
