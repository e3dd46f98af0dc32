"""Replies to requests that are made once, however often they are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.ledger.records import OtherRequest, RepeatableRequest, StoredReply
from gateway.ledger.sql.books.database import Database

_FIND_REPLY: Final = (
    "SELECT request, status, reply FROM replays"
    " WHERE caller = ? AND route = ? AND idempotency_key = ?"
)
_KEEP_REPLY: Final = (
    "INSERT INTO replays (caller, route, idempotency_key, request, status, reply, created_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class ReplayBook:
    def __init__(self, database: Database) -> None:
        self._database = database

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
            kept = do()
            connection.execute(
                _KEEP_REPLY,
                (*where, repeatable.request, kept.status, kept.reply, self._database.clock()),
            )
            return kept, False
