"""Each change once, however often it is asked for: the reply is committed with its effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.ledger.book import Book
from gateway.ledger.records import Conflict

_FIND: Final = (
    "SELECT request, status, reply FROM replays"
    " WHERE account_id = ? AND route = ? AND idempotency_key = ?"
)
_KEEP: Final = (
    "INSERT INTO replays (account_id, route, idempotency_key, request, status, reply, created_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Errand:
    """What makes two requests the same one: who asks, for what, under which key."""

    account_id: int
    route: str
    idempotency_key: str
    request: bytes
    """SHA-256 of the request's body."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A reply as it was first given."""

    status: int
    reply: bytes


class OtherRequest(Conflict):
    """The idempotency key was used for another request."""


class ReplayBook(Book):
    def run_once(self, errand: Errand, do: Callable[[], Kept]) -> tuple[Kept, bool]:
        """Do it, or give what was replied before; and whether it was done before.

        `do` runs in the transaction that keeps its reply: both happen, or neither.

        Raises:
            OtherRequest: the idempotency key was used before, with another body.
        """
        where = (errand.account_id, errand.route, errand.idempotency_key)
        with self.changing() as connection:
            row = connection.execute(_FIND, where).fetchone()
            if row is not None:
                request, status, reply = row
                if request != errand.request:
                    raise OtherRequest("this Idempotency-Key was used before, for another request")
                return Kept(status, reply), True
            kept = do()
            connection.execute(
                _KEEP, (*where, errand.request, kept.status, kept.reply, self.clock())
            )
            return kept, False
