"""Sessions with the nodes, rounds and connections of a database, played as they are written in `played/`.

They begin with the accounts `a` and `b`, of 5000 nano-units, with the keys `key_a` and `key_b`.

    $ sql SELECT {mine.id}        its rows; `{}` has the id or the epoch of a node
    $ other: BEGIN                the same on a connection named `other`; `store:` is the store's
    $ node mine                   register; also `renew mine`, `leave mine`
    $ ago mine seen_at 9          let that be so many seconds ago
    $ look mine                   three seconds later, whose requests were interrupted
    $ pending req_1 mine          let a node have a request in flight
    $ feed                        read all accounts; `$ poll other` what was changed since
    $ ask req_1 key_a             a request; `$ end req_1 70` its end, `$ hold req_1 8` its hold
    $ round mine ask:req_1        a round of a node; also `end:req_1`, `raise:req_1`
    $ work both:req_1             a round of the store, which admits and settles at once
    $ lose before                 the store's next round, or `after` it only its answer
    $ close                       end the store; `$ log` is what was told of it, `$ cut off` ends
                                  all other connections

The clock stands still. What `tests/ledger/player.py` says is true here as well.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.feed import ChangeFeed
from gateway.extras.postgres.messages import RoundAnswer
from gateway.extras.postgres.nodes import (
    DeadNode,
    Node,
    Upkeep,
    leave,
    look_around,
    register,
    renew,
)
from gateway.extras.postgres.session import Session, connect, describe
from gateway.extras.postgres.statement import Parameter
from gateway.extras.postgres.store import PostgresStore
from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.budget_records import Allowance, Budget, Spending, find_span
from gateway.ledger.key_records import KeyTerms, Limits
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.serving.queue import Item
from tests.extras.postgres.databases import CUT_OFF, stop_clock
from tests.extras.postgres.rounds import run_round
from tests.extras.postgres.test_months import ROW
from tests.ledger.contract.kit import NOW_MS, admission, settlement
from tests.ledger.player import NOTHING, Clock, play_session, read_sessions
from tests.ledger.player import Session as Player

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
UNSOUND: Final = ("nodes: ", "feed: ")
"""Files of sessions that write rows by themselves."""
SILENCE_SECONDS: Final = 5


class Fault(Session):
    """Loses a round: before the server has it, or its answer."""

    lost: tuple[str, Exception] | None = None

    async def fetch_value(self, statement: bytes, parameters: Sequence[Parameter]) -> bytes:
        if self.lost is None or not statement.startswith(b"SELECT run_round"):
            return await super().fetch_value(statement, parameters)
        (when, error), self.lost = self.lost, None
        if when == "after":
            await super().fetch_value(statement, parameters)
        raise error


class Statements(Player):
    def __init__(
        self, url: str, books: PostgresBooks, stack: ExitStack, caplog: pytest.LogCaptureFixture
    ) -> None:
        super().__init__(books, Clock())
        self._url, self._stack, self._caplog = url, stack, caplog
        self._sessions: dict[str, Session] = {}
        self._nodes: dict[str, Node] = {}
        self._holds: dict[str, Hold] = {}
        self._ends: dict[str, str] = {}
        self._feed = ChangeFeed()
        self._fault = Fault(connect(url).driver)
        self._sessions["store"] = stack.enter_context(closing(self._fault))
        self._store: PostgresStore | None = None
        self.words[Node] = self._nodes.__getitem__
        stop_clock(self._connect("sql"), NOW_MS)

    def _connect(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self._stack.enter_context(closing(connect(self._url)))
        return self._sessions[name]

    async def act(self, verb: str, rest: str) -> Any:
        verb, connection = ("sql", verb[:-1]) if verb.endswith(":") else (verb, "sql")
        told: Any = NOTHING
        try:
            match verb:
                case "sql":
                    cursor = self._connect(connection).execute(rest.format(**self._nodes))
                    told = cursor.fetchall() if cursor.description else NOTHING
                case "end":
                    id_, _, self._ends[id_] = rest.partition(" ")
                case "work":
                    told = await self._work([self._find(word)[1] for word in rest.split()])
                case "round":
                    told = self._run_round(*rest.split())
                case "close" if self._store is not None:
                    await self._store.close(leave)
                case _:
                    do = getattr(self, f"do_{verb}", None)
                    told = self.call(do, rest) if do else await super().act(verb, rest)
        except psycopg.Error as error:
            return error
        return told

    def do_node(self, name: str) -> None:
        self._nodes[name] = register(self._connect("sql"))

    def do_renew(self, node: Node) -> None:
        renew(self._connect("sql"), node)

    def do_leave(self, node: Node) -> None:
        leave(self._connect("sql"), node)

    def do_look(self, node: Node) -> list[DeadNode]:
        session = self._connect("sql")
        session.run(
            "UPDATE nodes SET suspected_at = suspected_at - INTERVAL '3 s'"
            " WHERE suspected_at IS NOT NULL"
        )
        return list(look_around(session, node, SILENCE_SECONDS))

    def do_ago(self, node: Node, column: str, seconds: int) -> None:
        ago = f"{column} = clock_timestamp() - INTERVAL '{seconds} s'"
        self._connect("sql").execute(f"UPDATE nodes SET {ago} WHERE id = ?", (node.id,))

    def do_pending(self, id_: str, node: Node) -> None:
        session = self._connect("sql")
        session.execute(ROW, (id_, 1))
        session.execute("UPDATE requests SET node_id = ? WHERE id = ?", (node.id, id_))
        session.execute("UPDATE accounts SET in_flight = in_flight + 1 WHERE id = 1")

    def do_feed(self) -> Snapshot:
        return self._feed.read_all(self._connect("sql"), NOW_MS)

    def do_poll(self, connection: str = "sql") -> Snapshot | None:
        return self._feed.poll(self._connect(connection))

    def do_cut(self, off: str) -> None:
        del off
        self._connect("sql").run(CUT_OFF)

    def do_log(self) -> list[str]:
        return self._caplog.messages

    def do_lose(self, when: str, error: str = "OperationalError") -> None:
        made = vars(builtins).get(error) or getattr(psycopg.errors, error)
        self._fault.lost = when, made("the connection is lost")

    def do_ask(
        self,
        id_: str,
        key_id: str,
        account_id: int = 1,
        *,
        budget_id: int | None = None,
        key_rate: Limits | None = None,
    ) -> None:
        account = Account(account_id, "", suspended=False, balance_nano=0)
        asked = admission(id_=id_, key_rate=key_rate, expected_tokens=60)
        hold = Hold(asked, account, Key(key_id, account, KeyTerms(), Line(key_id)), 1000)
        if budget_id is not None:
            spending = Spending(find_span("day", NOW_MS), 0)
            hold.budget = Budget(budget_id, account_id, None, Allowance(1500, "day"), spending)
        self._holds[id_] = hold

    def do_hold(self, id_: str, amount_nano: int) -> None:
        self._holds[id_].amount_nano = amount_nano

    def _find(self, word: str) -> tuple[str, Item]:
        """Read a step of a request: `ask:`, `end:`, `both:` or `raise:` with its id."""
        step, _, id_ = word.partition(":")
        hold = self._holds[id_]
        hold.settlement = (
            None if step in ("ask", "raise") else self.call(settlement, self._ends[id_])
        )
        return step, Item(hold, insert=step in ("ask", "both"), settlement=hold.settlement)

    def _run_round(self, node: str, *words: str) -> RoundAnswer:
        steps = [self._find(word) for word in words]
        ended, raised, asked = (
            [item for found, item in steps if found == step] for step in ("end", "raise", "ask")
        )
        session = self._connect("sql")
        return run_round(session, self._nodes[node], ended, raised, asked, now_ms=NOW_MS)

    async def _work(self, items: Sequence[Item]) -> object:
        if self._store is None:
            node = self._nodes["store"] = register(self._connect("sql"))
            upkeep = Upkeep(node, 0, silence_seconds=SILENCE_SECONDS)
            self._store = PostgresStore(
                self._url, self._fault, node, self._feed, upkeep, clock=lambda: NOW_MS
            )
            self._stack.callback(lambda store: store._session.close(), self._store)
        reported: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._store.start_round(items, polls=False, report=reported.set_result)
        return await reported

    def _show(self, value: Any) -> str:
        if isinstance(value, Item):
            return value.request_id
        if isinstance(value, Exception):
            return f"{type(value).__name__}: {describe(value)}"
        return super()._show(value)


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    ledger_url: str, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with ExitStack() as stack:
        books = stack.enter_context(PostgresBooks(ledger_url, clock=lambda: NOW_MS))
        for account in ("a", "b"):
            books.accounts.create(account, credit_nano=5000)
        player = Statements(ledger_url, books, stack, caplog)
        for account in ("a", "b"):
            await player.play(f"keys.create {account} {{}} key_{account}")
        await play_session(*SESSIONS[name], player.play)
    if not name.startswith(UNSOUND):
        with PostgresBooks(ledger_url) as again:
            assert again.audit().problems == ()
