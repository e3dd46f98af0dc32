"""The operator's books: what the command line and the console ask of a ledger.

Each part has the verbs of one thing: `books.keys.revoke(key_id)`. A call is one short transaction
and blocks until it is committed. What it changes is also noted as an event, under `books.actor`.

Every call may raise LedgerError when the ledger cannot be used. Besides that, reads raise NotFound
for what does not exist, and changes raise Refused or one of its kinds.

Events and replies follow: who did what, apart from requests; replies to requests that are made once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from gateway.ledger.records import (
    MAX_INTEGER,
    AuditReport,
    EventView,
    MoveRecord,
    NodeView,
    OtherRequest,
    RepeatableRequest,
    StoredReply,
)
from gateway.ledger.sql.books.accounts import AccountBook
from gateway.ledger.sql.books.alerts import AlertBook
from gateway.ledger.sql.books.budgets import BudgetBook
from gateway.ledger.sql.books.calls import CallBook
from gateway.ledger.sql.books.credentials import TokenBook, TotpBook
from gateway.ledger.sql.books.database import Database, Part
from gateway.ledger.sql.books.entries import CodeBook, EntryBook
from gateway.ledger.sql.books.keys import KeyBook
from gateway.ledger.sql.books.observations import ObservationBook
from gateway.ledger.sql.books.signins import SignInBook
from gateway.ledger.sql.books.usage import UsageBook
from gateway.ledger.sql.connection import Connection, Values

_LAST_CHECKPOINT: Final = "SELECT max(created_ms) FROM checkpoints"


class Books(Database):
    """One connection to the books, for one thread at a time; a context manager."""

    def __init__(self, connection: Connection, clock: Callable[[], int]) -> None:
        super().__init__(connection, clock)
        self.accounts = AccountBook(self)
        self.keys = KeyBook(self)
        self.budgets = BudgetBook(self)
        self.entries = EntryBook(self)
        self.codes = CodeBook(self, self.entries)
        self.calls = CallBook(self)
        self.usage = UsageBook(self)
        self.signins = SignInBook(self)
        self.totp = TotpBook(self)
        self.tokens = TokenBook(self)
        self.events = EventBook(self)
        self.observations = ObservationBook(self)
        self.alerts = AlertBook(self)
        self.replays = ReplayBook(self)

    @abstractmethod
    def audit(self) -> AuditReport:
        """Prove that balances, entries, requests and sums agree; a success is a checkpoint."""

    def list_nodes(self) -> list[NodeView]:
        """Return the processes that serve from a shared ledger; none if only one can serve."""
        return []

    def find_last_checkpoint_ms(self) -> int | None:
        """Return when a proof last covered new entries, whichever process ran it."""
        (at_ms,) = self.read_one(_LAST_CHECKPOINT, ())
        return None if at_ms is None else int(at_ms)

    @abstractmethod
    def back_up(self, target: Path) -> int:
        """Write a consistent copy to a new file while others write; return its size in bytes."""

    @abstractmethod
    def read_records(self) -> tuple[int, Iterator[MoveRecord]]:
        """Return the schema's version and all rows that move; read them within a `snapshot`."""

    @abstractmethod
    def measure(self) -> tuple[int, int]:
        """Return the bytes of the ledger, and of its log of recent commits."""

    @abstractmethod
    def wait_in_force(self) -> None:
        """Return once a serving process, if there is one, has applied all that is committed."""

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_MATCHING: Final = """
    (:part IS NULL OR actor LIKE :part ESCAPE '\\' OR action LIKE :part ESCAPE '\\'
        OR account LIKE :part ESCAPE '\\' OR target LIKE :part ESCAPE '\\')
"""
_PAGE: Final = f"""
    SELECT json_group_array(
        json_array(id, at_ms, actor, action, account, target, detail, address)
    )
    FROM (
        SELECT * FROM events WHERE id < coalesce(:before, {MAX_INTEGER}) AND {_MATCHING}
        ORDER BY id DESC LIMIT :limit
    ) AS page
"""  # noqa: S608 - built from constants
_COUNT_EVENTS: Final = "SELECT count(*) FROM events"
_MATCHING_COUNT: Final = f"{_COUNT_EVENTS} WHERE {_MATCHING}"
_LAST_EVENT: Final = """
    SELECT id, at_ms, actor, action, account, target, detail, address FROM events
    WHERE action = :action AND (:address IS NULL OR address = :address)
    ORDER BY id DESC LIMIT 1
"""
MAX_AT_ONCE: Final = 500
"""Events that are read at once; the rest is behind them."""
_AFTER: Final = f"""
    SELECT id, at_ms, actor, action, account, target, detail, address FROM events
    WHERE action = :action AND id > :after AND at_ms >= :since ORDER BY id LIMIT {MAX_AT_ONCE}
"""  # noqa: S608 - built from constants


class EventBook(Part):
    def read_page(self, search: str | None, before_id: int | None, limit: int) -> list[EventView]:
        """Return the latest first; `search` is a part of actor, action, account or target."""
        wanted = {"part": _make_pattern(search), "before": before_id, "limit": limit}
        events = [EventView(*row) for row in self._database.read_rows(_PAGE, wanted)]
        return sorted(events, key=lambda event: event.id, reverse=True)

    def count(self, search: str | None) -> int:
        sql = _COUNT_EVENTS if search is None else _MATCHING_COUNT
        return self._database.read_number(sql, {"part": _make_pattern(search)})

    def find_last(self, action: str, address: str | None = None) -> EventView | None:
        """Return the last event of an action, of anybody or from an address, or None."""
        row = self._database.read_one(_LAST_EVENT, {"action": action, "address": address})
        return None if row is None else EventView(*row)

    def read_after(self, action: str, after_id: int, since_ms: int) -> list[EventView]:
        """Return the events of an action behind an id and from a time on, the earliest first."""
        wanted: Values = {"action": action, "after": after_id, "since": since_ms}
        with self._database.reading() as connection:
            return [EventView(*row) for row in connection.execute(_AFTER, wanted).fetchall()]

    def append(self, action: str, *, target: str, detail: str, at_ms: int) -> None:
        """Note what a process did to itself, and when. It must not contain a secret."""
        self._database.note(action, account=None, target=target, detail=detail, at_ms=at_ms)


def _make_pattern(part: str | None) -> str | None:
    """Return a LIKE pattern with wildcards escaped; LIKE ignores the case of ASCII letters."""
    if part is None:
        return None
    # The backslash first, as it is what escapes the other two.
    literal = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{literal}%"


_FIND_REPLY: Final = (
    "SELECT request, status, reply FROM replays"
    " WHERE caller = ? AND route = ? AND idempotency_key = ?"
)
_KEEP_REPLY: Final = (
    "INSERT INTO replays (caller, route, idempotency_key, request, status, reply, created_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class ReplayBook(Part):
    def run_once(
        self, repeatable: RepeatableRequest, do: Callable[[], StoredReply]
    ) -> tuple[StoredReply, bool]:
        """Call `do`, or return the reply of the first call; and whether there was one before.

        `do` runs in the transaction that keeps its reply: both are committed, or neither.
        Raises OtherRequest if the idempotency key was used before with another body.
        """
        where = (repeatable.caller, repeatable.route, repeatable.idempotency_key)
        with self._database.changing() as connection:
            row = connection.execute(_FIND_REPLY, where).fetchone()
            if row is not None:
                request, status, reply = row
                if request != repeatable.request:
                    raise OtherRequest("this Idempotency-Key was used before, for another request")
                return StoredReply(status, reply), True
            # Inside this transaction: a crash leaves neither an effect without its reply, nor the reverse.
            kept = do()
            connection.execute(
                _KEEP_REPLY,
                (*where, repeatable.request, kept.status, kept.reply, self._database.clock()),
            )
            return kept, False
