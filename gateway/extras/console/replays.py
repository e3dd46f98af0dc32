"""Replies to idempotent requests: the first reply is stored, and sent again for a repeated request.

`run_once` of `routes` says which requests count as repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.ledger.records import Conflict
from gateway.ledger.sql.database import Part, read_script

_SQL: Final = read_script(__file__)


class OtherRequest(Conflict):
    """The idempotency key was used for another request."""


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """The identity of a request that may be repeated."""

    caller: str
    """An account's number, with the person's name behind it if there is one, or a token's name in events."""
    route: str
    idempotency_key: str
    request: bytes
    """SHA-256 of the request's body."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The stored first reply to a request."""

    status: int
    reply: bytes


class ReplayBook(Part):
    def run_once(
        self, repeatable: RepeatableRequest, do: Callable[[], StoredReply]
    ) -> tuple[StoredReply, bool]:
        """Call `do` and return its reply, or return the stored one; return also whether it was stored.

        `do` runs in the transaction that keeps its reply: both are committed, or neither.
        Raises OtherRequest if the idempotency key was used before with another body.
        """
        where = (repeatable.caller, repeatable.route, repeatable.idempotency_key)
        with self._database.changing():
            row = self._database.read_one(_SQL["find reply"], where)
            if row is not None:
                request, status, reply = row
                if request != repeatable.request:
                    raise OtherRequest("this Idempotency-Key was used before, for another request")
                return StoredReply(status, reply), True
            # Inside this transaction: a crash leaves neither an effect without its reply, nor the reverse.
            kept = do()
            values = (repeatable.request, kept.status, kept.reply, self._database.clock())
            self._database.change(_SQL["keep reply"], (*where, *values))
            return kept, False
